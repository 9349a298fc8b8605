"""The coordinator's view of topics: enough to assign partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

# Partitions by topic id.
Assignment = Mapping[bytes, frozenset[int]]


class Topic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int


class Topics(Protocol):
    """Current topics of the cluster. `version` changes with every change of the topics."""

    @property
    def version(self) -> int: ...

    def names(self) -> Collection[str]:
        """Return every topic, including internal ones: as in Kafka, consumer patterns may match them."""
        ...

    def by_name(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: bytes) -> Topic | None: ...


class NoTopics:
    version = 0

    def names(self) -> Collection[str]:
        return ()

    def by_name(self, name: str) -> Topic | None:
        return None

    def by_id(self, topic_id: bytes) -> Topic | None:
        return None


NamedPartitions = list[tuple[str, bytes, list[int]]]  # topic name, topic id, partitions


def named_partitions(topics: Topics, *by_id: Mapping[bytes, Iterable[int]]) -> NamedPartitions:
    """Merge partitions by topic id and sort them by topic name, skipping deleted topics."""
    united: dict[bytes, set[int]] = {}
    for each in by_id:
        for topic_id, partitions in each.items():
            united.setdefault(topic_id, set()).update(partitions)
    named = []
    for topic_id, found in united.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            named.append((topic.name, topic_id, sorted(found)))
    return sorted(named)
