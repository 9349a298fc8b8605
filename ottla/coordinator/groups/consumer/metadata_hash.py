"""Hash of a group's subscribed topics; a changed hash triggers a new assignment."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from ottla.coordinator.groups.topics import Topic


def metadata_hash(topics: Iterable[Topic]) -> int:
    """Return the hash, 0 for no topics.

    It differs from Kafka's: after a takeover from Kafka each group rebalances once.
    """
    digest = blake2b(digest_size=8)
    empty = True
    for topic in sorted(topics):
        empty = False
        digest.update(topic.topic_id + topic.partitions.to_bytes(4, "big") + topic.name.encode() + b"\0")
    return 0 if empty else int.from_bytes(digest.digest(), "big", signed=True)
