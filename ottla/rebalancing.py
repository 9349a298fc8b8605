"""Replica assignments: Kafka's algorithm for new topics, and a plan that balances an existing cluster."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from operator import itemgetter

# Kafka's replica assignment algorithm. Pure, without random numbers.
#
# Brokers use it for new topics and partitions (`cluster.topics.topic_decisions`, which also validates client requests),
# and kafka-reassign-partitions for its proposals. `rebalancing.planner` balances existing assignments.


def spread_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Assign `partitions` partitions, counted from `first_partition`, to the brokers of `racks` (id → rack).

    Leaders are assigned round robin from `start_index`. `shift`, which grows with each round, spreads followers so that
    many brokers share the load of a lost one. If every broker has a rack, a partition's replicas use as many racks as
    possible; otherwise racks are ignored. Requires at least `replication_factor` brokers.
    """
    rack_of = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(rack_of) < len(racks):
        brokers, rack_of = sorted(racks), {}
    else:
        brokers = _alternate_racks(rack_of)
    rack_count = len(set(rack_of.values()))
    assignment = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        leader = (partition + start_index) % len(brokers)
        if rack_of:
            replicas = _across_racks(brokers, rack_of, rack_count, leader, shift, replication_factor)
        else:
            followers = range(replication_factor - 1)
            replicas = [
                brokers[leader],
                *(brokers[_follower(leader, shift, k, len(brokers))] for k in followers),
            ]
        assignment[partition] = tuple(replicas)
    return assignment


def _follower(leader: int, shift: int, k: int, brokers: int) -> int:
    return (leader + 1 + (shift + k) % (brokers - 1)) % brokers


def _across_racks(
    brokers: Sequence[int],
    rack_of: Mapping[int, str],
    rack_count: int,
    leader: int,
    shift: int,
    replication_factor: int,
) -> list[int]:
    replicas = [brokers[leader]]
    racks = {rack_of[brokers[leader]]}
    k = 0
    while len(replicas) < replication_factor:
        broker = brokers[_follower(leader, shift * rack_count, k, len(brokers))]
        k += 1
        if broker not in replicas and (rack_of[broker] not in racks or len(racks) == rack_count):
            replicas.append(broker)
            racks.add(rack_of[broker])
    return replicas


def _alternate_racks(rack_of: Mapping[int, str]) -> list[int]:
    """Order the brokers so that neighbours are in different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(rack_of):
        by_rack.setdefault(rack_of[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    return [
        column[row]
        for row in range(max(map(len, columns), default=0))
        for column in columns
        if row < len(column)
    ]


# A replica assignment during balancing, and the effect of single steps on it.

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


# Plan replica moves that balance the brokers.
#
# Goals by priority; a later goal never worsens an earlier one:
#
# 1. drained brokers are empty,
# 2. the replicas of a partition are spread over racks,
# 3. every broker has the same number of replicas,
# 4. about the same number of bytes,
# 5. and is the preferred leader of the same number of partitions.
#
# Every step improves a goal, so planning ends. Planning again after the last step yields an empty plan.

Assignment = dict[PartitionName, tuple[int, ...]]

TOLERANCE = 0.1
# Minimum gain of an exchange, as a fraction of the copied bytes.
_LEAST_GAIN = 0.05
# Bytes worth copying to remove one byte of imbalance.
_WORTH = 4


class TooFewBrokers(Exception):
    """A partition has more replicas than brokers are available."""

    def __init__(self, name: PartitionName, replicas: int, brokers: int) -> None:
        super().__init__(name, replicas, brokers)
        self.name, self.replicas, self.brokers = name, replicas, brokers


def plan(
    partitions: Mapping[PartitionName, Placed],
    racks: Mapping[int, str | None],
    *,
    drained: Collection[int] = (),
    tolerance: float = TOLERANCE,
    leaders_only: bool = False,
) -> Assignment:
    """Return the partitions with new replicas, or with a new order of the same replicas.

    `racks` contains the live brokers (id → rack). Sizes are balanced when no broker deviates from the mean by more than
    `tolerance`. The same input gives the same plan.
    """
    layout = Layout(partitions, racks, drained)
    if not leaders_only:
        _drain(layout)
        _spread_over_racks(layout)
        while _even_counts(layout) | _even_sizes(layout, tolerance):
            pass
    _even_leaders(layout)
    return layout.changed()


# -- emptying, and racks -------------------------------------------------------------------------------


def _drain(layout: Layout) -> None:
    """Move the largest replicas first, each to the least loaded broker that crowds racks the least."""
    for broker in layout.drained:
        for name in sorted(layout.names[broker], key=lambda name: (-layout.partitions[name].size, name)):
            replicas = layout.replicas[name]
            targets = [target for target in layout.brokers if target not in replicas]
            if not targets:
                raise TooFewBrokers(name, len(replicas), len(layout.brokers))
            layout.move(name, broker, _emptiest(layout, name, broker, targets))


def _emptiest(layout: Layout, name: PartitionName, source: int, targets: list[int]) -> int:
    return min(
        targets,
        key=lambda target: (
            layout.crowding_after(name, source, target),
            layout.count[target],
            layout.size[target],
            target,
        ),
    )


def _spread_over_racks(layout: Layout) -> None:
    for name, replicas in layout.replicas.items():
        while layout.partitions[name].movable:
            steps = [
                (layout.crowding_after(name, source, target), -layout.count[source], source)
                for source in replicas
                for target in layout.brokers
                if target not in replicas
            ]
            best = min(steps, default=None)
            if best is None or best[0] >= layout.crowding(replicas):
                break
            source = best[2]
            targets = [target for target in layout.brokers if target not in replicas]
            layout.move(name, source, _emptiest(layout, name, source, targets))


# -- the number of replicas ----------------------------------------------------------------------------


def _even_counts(layout: Layout) -> bool:
    """Return True if any replica moved."""
    before = False
    while _move_one(layout) or _move_in_chain(layout):
        before = True
    return before


def _unequal(layout: Layout, amount: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of brokers where the first has at least two more than the second, most unequal pairs first."""
    fullest = sorted(layout.brokers, key=lambda broker: (-amount[broker], broker))
    for source in fullest:
        for target in reversed(fullest):
            if amount[source] - amount[target] < 2:
                break
            yield source, target


def _move_one(layout: Layout) -> bool:
    for source, target in _unequal(layout, layout.count):
        name = _best_to_move(layout, source, target)
        if name is not None:
            layout.move(name, source, target)
            return True
    return False


def _best_to_move(layout: Layout, source: int, target: int) -> PartitionName | None:
    """Prefer a partition whose topic becomes better spread, then one whose size brings the brokers closest."""
    wanted = max(0, (layout.size[source] - layout.size[target]) // 2)
    return min(
        (name for name in layout.movable(source) if layout.may_move(name, source, target)),
        key=lambda name: (
            layout.of_topic(name[0], target) - layout.of_topic(name[0], source),
            abs(layout.partitions[name].size - wanted),
            name,
        ),
        default=None,
    )


def _move_in_chain(layout: Layout) -> bool:
    """Move replicas through intermediate brokers if no direct move from a full to an empty broker is possible."""

    @cache
    def next_to(broker: int) -> list[int]:
        names = layout.movable(broker)
        return [
            target
            for target in layout.brokers
            if target != broker and any(layout.may_move(name, broker, target) for name in names)
        ]

    for source, target in _unequal(layout, layout.count):
        chain = _path(source, target, next_to)
        if chain and _move_along(layout, chain):
            return True
    return False


def _move_along(layout: Layout, chain: list[int]) -> bool:
    done: list[tuple[PartitionName, int, int]] = []
    for source, target in pairwise(chain):
        name = _best_to_move(layout, source, target)
        if name is None:  # an earlier link took it
            for undone in reversed(done):
                layout.move(undone[0], undone[2], undone[1])
            return False
        layout.move(name, source, target)
        done.append((name, source, target))
    return True


def _path(source: int, target: int, next_to: Callable[[int], Iterable[int]]) -> list[int]:
    """Return the shortest path, or an empty list."""
    came_from = {source: source}
    queue = deque([source])
    while queue and target not in came_from:
        broker = queue.popleft()
        for neighbour in next_to(broker):
            if neighbour not in came_from:
                came_from[neighbour] = broker
                queue.append(neighbour)
    if target not in came_from:
        return []
    path = [target]
    while path[-1] != source:
        path.append(came_from[path[-1]])
    return path[::-1]


# -- bytes ---------------------------------------------------------------------------------------------


def _even_sizes(layout: Layout, tolerance: float) -> bool:
    mean = sum(layout.size[broker] for broker in layout.brokers) / max(1, len(layout.brokers))
    done = False
    while _exchange_one(layout, mean, tolerance * mean):
        done = True
    return done


def _exchange_one(layout: Layout, mean: float, allowed: float) -> bool:
    largest = sorted(layout.brokers, key=lambda broker: (-layout.size[broker], broker))
    for source in largest:
        for target in reversed(largest):
            if layout.size[source] - mean <= allowed and mean - layout.size[target] <= allowed:
                break  # neither is far from the mean, and later pairs are closer
            found = _best_exchange(layout, source, target)
            if found is not None:
                given, taken = found
                layout.move(given, source, target)
                if taken is not None:
                    layout.move(taken, target, source)
                return True
    return False


def _best_exchange(
    layout: Layout, source: int, target: int
) -> tuple[PartitionName, PartitionName | None] | None:
    """Exchange a large replica for a small one, or for none if the counts stay as balanced."""
    gap = layout.size[source] - layout.size[target]
    if gap < 2:
        return None
    partitions = layout.partitions
    back: list[tuple[int, PartitionName | None]] = [
        (partitions[name].size, name)
        for name in layout.movable(target)
        if layout.may_move(name, target, source)
    ]
    back.sort()
    if layout.count[source] > layout.count[target]:
        back.insert(0, (0, None))
    best: tuple[tuple[object, ...], PartitionName, PartitionName | None] | None = None
    for given in layout.movable(source):
        if not layout.may_move(given, source, target):
            continue
        size = partitions[given].size
        nearest = bisect_left(back, size - gap // 2, key=itemgetter(0))
        for at in {0, max(0, nearest - 1), nearest}:
            if at >= len(back):
                continue
            taken = back[at][1]
            moved = size - back[at][0]
            gain = min(moved, gap - moved)
            cost = layout.copied(given, source, target)
            if taken is not None:
                cost += layout.copied(taken, target, source)
            if gain <= 0 or gain < _LEAST_GAIN * cost:
                continue
            key = (cost - _WORTH * gain, given, at)
            if best is None or key < best[0]:
                best = key, given, taken
    return None if best is None else (best[1], best[2])


# -- leaders -------------------------------------------------------------------------------------------


def _even_leaders(layout: Layout) -> None:
    """Balance leaders by reordering replicas, which copies nothing. Leadership moves along the shortest chains."""

    def led(broker: int) -> list[PartitionName]:
        return sorted(name for name in layout.movable(broker) if layout.replicas[name][0] == broker)

    def next_to(broker: int) -> list[int]:
        others = {other for name in led(broker) for other in layout.replicas[name][1:]}
        return [other for other in layout.brokers if other in others]

    def step() -> bool:
        next_to_now = cache(next_to)
        for source, target in _unequal(layout, layout.leaders):
            chain = _path(source, target, next_to_now)
            if chain:
                # Start at the end, so that no broker passes on a leadership it has just received.
                for giver, taker in reversed(list(pairwise(chain))):
                    name = next(name for name in led(giver) if taker in layout.replicas[name])
                    layout.prefer(name, taker)
                return True
        return False

    while step():
        pass
