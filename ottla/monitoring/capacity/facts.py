"""Measured facts about a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Disk:
    path: str
    total: int | None  # bytes; None if the broker does not report it
    usable: int | None


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    broker_id: int
    rack: str | None = None
    disks: tuple[Disk, ...] = ()
    idle: float | None = None  # idle share of its request handlers, if its metrics were read

    @property
    def total(self) -> int | None:
        return _sum(disk.total for disk in self._distinct)

    @property
    def usable(self) -> int | None:
        return _sum(disk.usable for disk in self._distinct)

    @property
    def _distinct(self) -> list[Disk]:
        return list({(disk.total, disk.usable): disk for disk in self.disks}.values())


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Facts about a partition. Rates are per second and count producer writes."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    size: int = 0  # bytes at the leader
    records: int = 0
    byte_rate: float = 0.0
    record_rate: float = 0.0
    read_rate: float = 0.0  # bytes consumed by all groups


@dataclass(frozen=True, slots=True)
class TopicSettings:
    min_insync_replicas: int = 1
    retention_ms: int | None = None  # None: forever
    retention_bytes: int | None = None
    is_compacted: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    seconds: float  # length of the measurement
    brokers: dict[int, BrokerFacts]
    partitions: dict[Partition, PartitionFacts]
    topics: dict[str, TopicSettings] = field(default_factory=dict)
    groups: int = 0  # groups that consumed something

    def settings(self, topic: str) -> TopicSettings:
        return self.topics.get(topic, TopicSettings())


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
