"""Replication of topics between clusters, with MirrorMaker's settings, topics and formats.

- `settings`: parses mm2.properties into flows from a source to a target.
- `policy`: names topics on the target and selects the topics and groups to copy. Pure.
- `formats`: encodes heartbeats, checkpoints and offset syncs as MirrorMaker does. Pure.
- `translation`: converts source offsets into target offsets exactly. Pure.
- `raw_copy`: copies batches from broker to broker inside a task, mostly without decoding them.
- `flow`: runs one flow as a streaming query; each micro-batch is one transaction on the target.
- `topic_sync`, `group_sync`: copy topics, configs and ACLs, and consumer groups with their offsets.
"""
