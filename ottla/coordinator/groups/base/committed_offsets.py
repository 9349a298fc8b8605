"""Committed offsets of one group, and pending offsets of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NO_TOPIC_ID = bytes(16)


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    # Retention time from requests of versions 2 to 4; -1 means the broker's retention.
    expire_timestamp: int = -1
    topic_id: bytes = NO_TOPIC_ID


class GroupOffsets:
    """Offsets by topic and partition; a topic without offsets has no entry."""

    __slots__ = ("by_topic",)

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, CommittedOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_topic)

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.by_topic.items():
            for partition, offset in partitions.items():
                yield topic, partition, offset

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, topic: str, partition: int, offset: CommittedOffset) -> None:
        partitions = self.by_topic.get(topic)
        if partitions is None:
            self.by_topic[topic] = {partition: offset}
        else:
            partitions[partition] = offset

    def remove(self, topic: str, partition: int) -> None:
        partitions = self.by_topic.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self.by_topic[topic]


class PendingOffsets:
    """Pending offsets of one `__consumer_offsets` partition by producer, in the order of their last commit.

    None marks an offset overtaken by a plain commit. Such an offset is never applied, but the partition stays unstable
    until the transaction ends.
    """

    __slots__ = ("by_producer",)

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[OffsetKey, CommittedOffset | None]] = {}

    def add(self, producer_id: int, key: OffsetKey, offset: CommittedOffset | None) -> None:
        self.by_producer.setdefault(producer_id, {})[key] = offset

    def overtake(self, key: OffsetKey) -> None:
        for offsets in self.by_producer.values():
            if key in offsets:
                offsets[key] = None

    def is_pending(self, key: OffsetKey) -> bool:
        return any(key in offsets for offsets in self.by_producer.values())

    def has_group(self, group_id: str) -> bool:
        return any(key.group_id == group_id for offsets in self.by_producer.values() for key in offsets)

    def end(self, producer_id: int) -> list[tuple[OffsetKey, CommittedOffset | None]]:
        return list(self.by_producer.pop(producer_id, {}).items())
