"""Pending transactional offsets of one `__consumer_offsets` partition."""

from __future__ import annotations

from ottla.coordinator.groups.offsets.committed_offsets import CommittedOffset
from ottla.coordinator.groups.records import OffsetKey


class PendingOffsets:
    """Pending offsets by producer, in the order of their last commit.

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
