"""Topics copied from one cluster to another, with MirrorMaker's settings, topics and formats.

- `settings`: mm2.properties, as flows from a source to a target.
- `policy`: what topics are called on the other side, and which are copied. Pure.
- `formats`: heartbeats, checkpoints and offset syncs, as MirrorMaker writes them. Pure.
- `translation`: offsets of the source as offsets of the target, exactly. Pure.
- `raw_copy`: what a task does: batches go from one broker to the other, most of them without being decoded.
- `flow`: one flow as a streaming query; a micro-batch is one transaction on the target.
- `topic_sync`, `group_sync`: what is copied beside records: topics, settings, ACLs; groups and their offsets.
"""
