"""A replica assignment during balancing, and the effect of single steps on it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

PartitionName = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition's current placement. An immovable one counts, but leaves only drained brokers."""

    replicas: tuple[int, ...]
    size: int = 0
    movable: bool = True


class Layout:
    """A replica assignment in progress.

    Invariant: every partition keeps its number of replicas, with at most one per broker; `names`, `count`, `size` and
    `leaders` agree with `replicas`. As in Kafka, racks are ignored unless every target broker has one.
    """

    def __init__(
        self,
        partitions: Mapping[PartitionName, Placed],
        racks: Mapping[int, str | None],
        drained: Collection[int] = (),
    ) -> None:
        self.partitions = partitions
        self.brokers = sorted(set(racks) - set(drained))
        known = {broker: rack for broker, rack in racks.items() if rack is not None}
        self._rack_of = known if all(broker in known for broker in self.brokers) else {}
        everybody = {*racks, *(broker for each in partitions.values() for broker in each.replicas)}
        self.drained = sorted(everybody & set(drained))
        self.replicas = {name: list(partitions[name].replicas) for name in sorted(partitions)}
        self.names: dict[int, set[PartitionName]] = {broker: set() for broker in everybody}
        self.count = dict.fromkeys(everybody, 0)
        self.size = dict.fromkeys(everybody, 0)
        self.leaders = dict.fromkeys(everybody, 0)
        self._of_topic: dict[tuple[str, int], int] = {}
        for name, replicas in self.replicas.items():
            if replicas:
                self.leaders[replicas[0]] += 1
            for broker in replicas:
                self._add(name, broker)

    def _add(self, name: PartitionName, broker: int) -> None:
        self.names[broker].add(name)
        self.count[broker] += 1
        self.size[broker] += self.partitions[name].size
        self._of_topic[name[0], broker] = self.of_topic(name[0], broker) + 1

    def _remove(self, name: PartitionName, broker: int) -> None:
        self.names[broker].remove(name)
        self.count[broker] -= 1
        self.size[broker] -= self.partitions[name].size
        self._of_topic[name[0], broker] -= 1

    def of_topic(self, topic: str, broker: int) -> int:
        return self._of_topic.get((topic, broker), 0)

    def movable(self, broker: int) -> list[PartitionName]:
        """Return the movable partitions of a broker, unordered."""
        return [name for name in self.names[broker] if self.partitions[name].movable]

    # Steps

    def move(self, name: PartitionName, source: int, target: int) -> None:
        """Move a replica. It keeps its position in the list, and so possibly its preference."""
        replicas = self.replicas[name]
        at = replicas.index(source)
        if at == 0:
            self.leaders[source] -= 1
            self.leaders[target] += 1
        replicas[at] = target
        self._remove(name, source)
        self._add(name, target)

    def prefer(self, name: PartitionName, leader: int) -> None:
        """Make a replica the preferred one by swapping it with the first."""
        replicas = self.replicas[name]
        at = replicas.index(leader)
        self.leaders[replicas[0]] -= 1
        self.leaders[leader] += 1
        replicas[0], replicas[at] = leader, replicas[0]

    def may_move(self, name: PartitionName, source: int, target: int) -> bool:
        """Return True if the move creates no duplicate replica and keeps the spread over racks."""
        replicas = self.replicas[name]
        if target in replicas:
            return False
        rack_of = self._rack_of
        left, entered = rack_of.get(source), rack_of.get(target)
        if left == entered:
            return True
        leaving = entering = 0
        for broker in replicas:
            rack = rack_of.get(broker)
            leaving += broker == source or (rack == left and rack is not None)
            entering += rack == entered
        return entering < leaving

    def copied(self, name: PartitionName, source: int, target: int) -> int:
        """Return the bytes that a move adds to the copying; negative if it saves some."""
        had, size = self.partitions[name].replicas, self.partitions[name].size
        return (0 if target in had else size) - (0 if source in had else size)

    # Measures: smaller is better

    def crowding(self, replicas: Iterable[int]) -> int:
        """Return the sum of squares of the number of replicas per rack."""
        shared: dict[object, int] = {}
        for broker in replicas:
            rack: object = self._rack_of.get(broker, broker)
            shared[rack] = shared.get(rack, 0) + 1
        return sum(number * number for number in shared.values())

    def crowding_after(self, name: PartitionName, source: int, target: int) -> int:
        return self.crowding(target if broker == source else broker for broker in self.replicas[name])

    def score(self) -> tuple[int, ...]:
        """Return the measures that a plan minimizes, by priority."""
        return (
            sum(self.count[broker] for broker in self.drained),
            sum(self.crowding(replicas) for replicas in self.replicas.values()),
            sum(self.count[broker] ** 2 for broker in self.brokers),
            sum(self.size[broker] ** 2 for broker in self.brokers),
            sum(self.leaders[broker] ** 2 for broker in self.brokers),
        )

    def changed(self) -> dict[PartitionName, tuple[int, ...]]:
        return {
            name: tuple(replicas)
            for name, replicas in self.replicas.items()
            if tuple(replicas) != self.partitions[name].replicas
        }
