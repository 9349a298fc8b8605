"""One number for the topics that a group subscribes to: when it changes, the group is assigned anew."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from ottla.coordinator.groups.topics import Topic


def metadata_hash(topics: Iterable[Topic]) -> int:
    """0 for no topics. Not Kafka's hash: who takes the log over from Kafka rebalances once."""
    digest = blake2b(digest_size=8)
    empty = True
    for topic in sorted(topics):
        empty = False
        digest.update(topic.topic_id + topic.partitions.to_bytes(4, "big") + topic.name.encode() + b"\0")
    return 0 if empty else int.from_bytes(digest.digest(), "big", signed=True)
