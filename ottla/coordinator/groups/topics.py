"""What a coordinator knows of topics: enough to assign their partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol


class Topic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int


class Topics(Protocol):
    """The cluster's topics at this moment. `version` changes whenever they do."""

    @property
    def version(self) -> int: ...

    def names(self) -> Collection[str]:
        """Every topic, internal ones too: a pattern of a consumer may match them, as in Kafka."""
        ...

    def by_name(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: bytes) -> Topic | None: ...


class NoTopics:
    """A cluster without topics."""

    version = 0

    def names(self) -> Collection[str]:
        return ()

    def by_name(self, name: str) -> Topic | None:
        return None

    def by_id(self, topic_id: bytes) -> Topic | None:
        return None


NamedPartitions = list[tuple[str, bytes, list[int]]]  # topic name, its id, partitions


def named_partitions(topics: Topics, *by_id: Mapping[bytes, Iterable[int]]) -> NamedPartitions:
    """Partitions by topic id, united and sorted by topic name; topics that are gone are omitted."""
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
