"""Balancing the replicas of a cluster: the plan, and the moves that carry it out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ottla.cli.client import Client
from ottla.cli.errors import BrokerUnreachable, JobError, TopicNotFound
from ottla.client.admin.configs import ConfigEntry, Resource, describe_many
from ottla.client.admin.log_dirs import describe_log_dirs
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Move,
    clear_broker_throttles,
    clear_topic_throttles,
    elect_leaders,
    keeps_replication_factor,
    list_reassignments,
    moves_of,
    reassign,
    set_throttle,
)
from ottla.client.admin.routing import ask_controller
from ottla.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.rebalancing import Placed, TooFewBrokers, plan

# The load of brokers, and a plan that evens it out. `rebalance_moves` carries the plan out.


@dataclass(frozen=True, slots=True)
class PartitionNow:
    """If it is being moved already, `replicas` are those it will have."""

    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...]
    size: int
    moving: bool


@dataclass(frozen=True, slots=True)
class ClusterNow:
    racks: dict[int, str | None]  # of the brokers that are up
    partitions: dict[Partition, PartitionNow]

    @property
    def moving(self) -> list[Partition]:
        return [name for name, each in self.partitions.items() if each.moving]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one partition: other replicas, or another order."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    wanted: tuple[int, ...]
    size: int

    @property
    def added(self) -> list[int]:
        return [broker for broker in self.wanted if broker not in self.replicas]

    @property
    def removed(self) -> list[int]:
        return [broker for broker in self.replicas if broker not in self.wanted]

    @property
    def bytes_to_copy(self) -> int:
        return self.size * len(self.added)


@dataclass(frozen=True, slots=True)
class Load:
    replicas: int = 0
    leaders: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Proposal:
    changes: list[Change]
    elections: list[Partition]  # not led by the preferred replica, and not changed otherwise
    before: dict[int, Load]
    after: dict[int, Load]
    left_alone: list[Partition]  # because they have no leader
    fixed: list[Partition]  # because a broker with a replica is down

    @property
    def moves(self) -> list[Change]:
        return [change for change in self.changes if change.added]

    @property
    def bytes_to_copy(self) -> int:
        return sum(change.bytes_to_copy for change in self.changes)

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.elections


def look(client: Client, topics: Sequence[str] = ()) -> ClusterNow:
    ongoing = list_reassignments(client.cluster)
    while True:
        answer = _metadata_of_the_controller(client, topics)
        before, ongoing = ongoing, list_reassignments(client.cluster)
        if ongoing.keys() == before.keys():
            break  # else a move began or ended in between, and the two answers do not fit together
    nodes = client.cluster.nodes()
    sizes: dict[tuple[Partition, int], int] = {}
    for broker in nodes:
        for directory in describe_log_dirs(client.cluster, broker):
            for replica in directory.replicas:
                if not replica.is_future:
                    sizes[(replica.topic, replica.partition), broker] = replica.size
    partitions = {}
    for topic in sorted(answer.topics, key=lambda topic: topic.name or ""):
        if topic.error_code:
            raise TopicNotFound(topic.name or "")
        for each in topic.partitions:
            name = (topic.name or "", int(each.partition_index))
            leader = None if each.leader_id < 0 else int(each.leader_id)
            move = ongoing.get(name)
            replicas, removing = each.replica_nodes, set()
            if move is not None:
                replicas, removing = move.replicas, set(move.removing)
            had = [sizes.get((name, broker), 0) for broker in replicas]
            partitions[name] = PartitionNow(
                tuple(broker for broker in replicas if broker not in removing),
                leader,
                tuple(each.isr_nodes),
                sizes.get((name, leader), 0) if leader is not None else max(had, default=0),
                move is not None,
            )
    return ClusterNow({broker: node.rack for broker, node in nodes.items()}, partitions)


def _metadata_of_the_controller(client: Client, topics: Sequence[str]) -> MetadataResponse:
    """The controller also lists what moves. Other brokers may show a move for a while that is over there."""
    wanted = [MetadataRequestTopic(name=name) for name in topics] or None
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    return ask_controller(client.cluster, request, MetadataResponse, lambda answer: answer)


def propose(
    now: ClusterNow, *, drained: Collection[int] = (), tolerance: float, leaders_only: bool = False
) -> Proposal:
    drained = set(drained)
    known = {*now.racks, *(broker for each in now.partitions.values() for broker in each.replicas)}
    for broker in sorted(drained - known):
        raise JobError(f"There is no broker {broker}, and no partition has a replica on it.")
    led = {name: each for name, each in now.partitions.items() if each.leader is not None}
    alive = set(now.racks) | drained
    fixed = [name for name, each in led.items() if not set(each.replicas) <= alive]
    placed = {
        name: Placed(each.replicas, each.size, not each.moving and name not in fixed)
        for name, each in led.items()
    }
    try:
        wanted = plan(placed, now.racks, drained=drained, tolerance=tolerance, leaders_only=leaders_only)
    except TooFewBrokers as error:
        topic, number = error.name
        raise JobError(
            f"{topic}-{number} has {error.replicas} replicas, and there are {error.brokers} brokers to have them: "
            "add a broker first, or lower its replication factor."
        ) from None
    changes = [
        Change(*name, led[name].replicas, replicas, led[name].size) for name, replicas in wanted.items()
    ]
    elections = [
        name
        for name, each in led.items()
        if name not in wanted and each.leader != each.replicas[0] and each.replicas[0] in each.isr
    ]
    return Proposal(
        changes,
        elections,
        _loads(now, {name: (each.replicas, each.leader) for name, each in now.partitions.items()}),
        _loads(
            now,
            {
                name: (after := wanted.get(name, each.replicas), _leader_after(each, after))
                for name, each in now.partitions.items()
            },
        ),
        [name for name, each in now.partitions.items() if each.leader is None],
        fixed,
    )


def _leader_after(now: PartitionNow, replicas: tuple[int, ...]) -> int | None:
    """The preferred replica leads, unless it is an old replica out of sync."""
    first = replicas[0]
    return first if first in now.isr or first not in now.replicas else now.leader


def _loads(
    now: ClusterNow, placed: Mapping[Partition, tuple[tuple[int, ...], int | None]]
) -> dict[int, Load]:
    brokers = {*now.racks, *(broker for each in now.partitions.values() for broker in each.replicas)}
    counts = {broker: [0, 0, 0] for broker in sorted(brokers)}
    for name, (replicas, leader) in placed.items():
        for broker in replicas:
            counts[broker][0] += 1
            counts[broker][1] += broker == leader
            counts[broker][2] += now.partitions[name].size
    return {broker: Load(*each) for broker, each in counts.items()}


# Carrying out a plan: a few partitions at a time, throttled, until all are where they should be.

T = TypeVar("T")

_PREFERRED = 0
_POLL = 0.3
_PATIENCE = 60.0  # with a cluster that does not answer while a controller is replaced
_REORDERED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Progress:
    moved: int
    under_way: int
    partitions: int
    copied: int
    bytes: int


class Rebalance:
    """One run. If it is interrupted, moves that have begun go on: the brokers do them, this only starts and watches."""

    def __init__(
        self,
        client: Client,
        changes: Sequence[Change],
        *,
        batch: int,
        throttle: int | None,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._client = client
        self._moves = [change for change in changes if change.added]
        self._reordered = [change for change in changes if not change.added]
        self._batch = batch
        self._throttle = throttle
        self._on_progress = on_progress
        self._begun: list[Change] = []
        self.under_way: set[Partition] = set()
        self._refused: dict[Partition, str] = {}

    def run(self, already_moving: Iterable[Partition] = ()) -> None:
        """Until all has moved. What moves already counts as begun."""
        ongoing = list_reassignments(self._client.cluster)
        self.under_way = {name for name in already_moving if name in ongoing}
        if self._throttle is not None and (self._moves or self.under_way):
            wanted = {_name(change): list(change.wanted) for change in self._moves}
            current = {_name(change): list(change.replicas) for change in self._moves}
            there = set(self._client.cluster.nodes())
            moves = {
                name: Move(move.sources & there, move.destinations & there)
                for name, move in moves_of(ongoing, wanted, current).items()
            }
            set_throttle(self._client.cluster, moves, self._throttle)
        waiting = list(reversed(self._moves))
        while waiting or self.under_way:
            while waiting and len(self.under_way) < self._batch:
                some = [waiting.pop() for _ in range(min(len(waiting), self._batch - len(self.under_way)))]
                self._begin(some)
            self._report()
            time.sleep(_POLL)
            self.under_way &= set(self._patiently(lambda: list_reassignments(self._client.cluster)))
        self._report()
        for first in range(0, len(self._reordered), _REORDERED_AT_ONCE):
            self._begin(self._reordered[first : first + _REORDERED_AT_ONCE])
        if self._refused:
            reasons = "; ".join(f"{topic}-{number}: {why}" for (topic, number), why in self._refused.items())
            raise JobError(f"{len(self._refused)} partitions could not be moved: {reasons}")

    def _begin(self, changes: list[Change]) -> None:
        wanted: dict[Partition, list[int] | None] = {_name(change): list(change.wanted) for change in changes}
        refused = self._patiently(lambda: self._reassign(wanted))
        self._refused |= refused
        begun = [change for change in changes if _name(change) not in refused]
        self._begun += begun
        self.under_way |= {_name(change) for change in begun if change.added}

    def _reassign(self, wanted: dict[Partition, list[int] | None]) -> dict[Partition, str]:
        """Without a change of the replication factor, where the controller can refuse one: the plan may be based on
        metadata that was out of date."""
        cluster = self._client.cluster
        return reassign(cluster, wanted, may_change_replication_factor=not keeps_replication_factor(cluster))

    def _report(self) -> None:
        moved = [change for change in self._begun if change.added and _name(change) not in self.under_way]
        under_way = {_name(change): change for change in self._begun if _name(change) in self.under_way}
        copied = sum(change.bytes_to_copy for change in moved) + self._copied_of(under_way)
        total = sum(change.bytes_to_copy for change in self._moves)
        self._on_progress(
            Progress(len(moved), len(self.under_way), len(self._moves), min(copied, total), total)
        )

    def _copied_of(self, under_way: dict[Partition, Change]) -> int:
        copied = 0
        for broker in {broker for change in under_way.values() for broker in change.added}:
            topics = {change.topic for change in under_way.values() if broker in change.added}
            try:
                directories = describe_log_dirs(self._client.cluster, broker, sorted(topics))
            except JobError:
                continue  # the broker is down or too old: show the rest
            for replica in (each for directory in directories for each in directory.replicas):
                change = under_way.get((replica.topic, replica.partition))
                if change is not None and broker in change.added:
                    copied += min(replica.size, change.size)
        return copied

    def _patiently(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return ask()
            except BrokerUnreachable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)
            self._client.cluster.forget_nodes()


def _name(change: Change) -> Partition:
    return change.topic, change.partition


def elect_preferred(client: Client, partitions: Sequence[Partition]) -> list[Partition]:
    """Elect the preferred replicas. Returns the partitions where that failed."""
    if not partitions:
        return []
    outcome = elect_leaders(client.cluster, _PREFERRED, partitions)
    return [name for name, (error, _) in outcome.items() if error not in ("NONE", "ELECTION_NOT_NEEDED")]


def lift_throttles(client: Client, topics: Sequence[str]) -> bool:
    """The throttles of this run and of an interrupted one: rates of brokers, and the replicas that topics name."""
    brokers = [Resource("broker", str(broker)) for broker in client.cluster.nodes()]
    rates = describe_many(client.cluster, brokers).values()
    if not topics or not any(_has(entries, (LEADER_RATE, FOLLOWER_RATE)) for entries in rates):
        return False
    described = describe_many(client.cluster, [Resource("topic", topic) for topic in topics])
    held_back = [
        resource.name
        for resource, entries in described.items()
        if _has(entries, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    ]
    if held_back:
        clear_broker_throttles(client.cluster, client.cluster.nodes())
        clear_topic_throttles(client.cluster, held_back)
    return bool(held_back)


def _has(entries: Iterable[ConfigEntry], names: Collection[str]) -> bool:
    return any(entry.name in names and entry.source.startswith("DYNAMIC_") for entry in entries)
