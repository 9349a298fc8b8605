"""Load of each broker, now and after the loss of one. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ottla.monitoring.capacity.facts import ClusterFacts, Partition, PartitionFacts, TopicSettings


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
