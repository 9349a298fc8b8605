"""Measured facts about a cluster, and the load of each broker, now and after the loss of one. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

# Measured facts about a cluster.

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


# Load of each broker, now and after the loss of one. Pure.


@dataclass(slots=True)
class BrokerLoad:
    """Load of a broker. Rates are in bytes per second."""

    replicas: int = 0
    leaders: int = 0
    bytes_in: float = 0.0  # from producers and leaders
    bytes_out: float = 0.0  # to consumers and followers
    stored: int = 0
    stored_later: float = 0.0  # once retention balances the growth


@dataclass(frozen=True, slots=True)
class Loss:
    """Consequences of losing a broker."""

    broker: int
    offline: list[Partition]  # without in-sync replicas
    read_only: list[Partition]  # with fewer than min.insync.replicas
    busiest: float  # bytes per second of the busiest broker, sending or receiving


@dataclass(slots=True)
class Loads:
    brokers: dict[int, BrokerLoad] = field(default_factory=dict)

    @property
    def busiest(self) -> float:
        return max((max(each.bytes_in, each.bytes_out) for each in self.brokers.values()), default=0.0)


def loads(facts: ClusterFacts, without: Collection[int] = ()) -> Loads:
    """Compute the loads. Without some brokers the next in-sync replica leads, and nothing is copied elsewhere."""
    found = Loads({broker: BrokerLoad() for broker in facts.brokers if broker not in without})
    for name, partition in facts.partitions.items():
        live = [each for each in partition.replicas if each in found.brokers]
        leader = partition.leader
        if leader not in found.brokers:
            leader = next((each for each in live if each in partition.isr), -1)
        if leader == -1:
            continue
        later = eventual_size(partition, facts.settings(name[0]))
        for broker in live:
            load = found.brokers[broker]
            load.replicas += 1
            load.bytes_in += partition.byte_rate
            load.stored += partition.size
            load.stored_later += later
        led = found.brokers[leader]
        led.leaders += 1
        led.bytes_out += partition.byte_rate * (len(live) - 1) + partition.read_rate
    return found


def eventual_size(partition: PartitionFacts, settings: TopicSettings) -> float:
    """Return the size of one replica once deletions balance writes; infinite if nothing is ever deleted."""
    if not partition.byte_rate:
        return float(partition.size)
    if settings.is_compacted and settings.retention_ms is None and settings.retention_bytes is None:
        return float(partition.size)  # grows with its unknown number of keys
    by_time = (
        float("inf") if settings.retention_ms is None else partition.byte_rate * settings.retention_ms / 1000
    )
    by_size = float("inf") if settings.retention_bytes is None else float(settings.retention_bytes)
    return max(min(by_time, by_size), 0.0)


def losses(facts: ClusterFacts) -> list[Loss]:
    """Return the consequences of losing each broker, except existing problems."""
    found = []
    for broker in sorted(facts.brokers):
        offline, read_only = [], []
        for name, partition in facts.partitions.items():
            left = [each for each in partition.isr if each != broker and each in facts.brokers]
            if broker not in partition.replicas or partition.leader not in facts.brokers:
                continue
            if not left:
                offline.append(name)
            elif len(left) < min(facts.settings(name[0]).min_insync_replicas, len(partition.replicas)):
                read_only.append(name)
        busiest = loads(facts, without={broker}).busiest
        found.append(Loss(broker, offline, read_only, busiest))
    return found
