"""Committed offsets of one group, and their expiration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.groups.group import Group

NO_TOPIC_ID = bytes(16)


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


def expired_offsets(group: Group, now_ms: int, retention_ms: int) -> list[tuple[str, int]]:
    """Return the offsets that have exceeded the retention time.

    Retention counts from the moment a classic group became empty. In a stable group, offsets of unsubscribed topics
    count from their commit. Other groups without members count from the commit too.
    """
    if not group.offsets_may_expire:
        return []
    since_empty = group.empty_since
    expired = []
    for topic, partition, offset in group.offsets:
        if group.is_subscribed_to(topic):
            continue
        if offset.expire_timestamp >= 0:
            due = offset.expire_timestamp
        else:
            due = (offset.commit_timestamp if since_empty is None else since_empty) + retention_ms
        if now_ms >= due:
            expired.append((topic, partition))
    return expired
