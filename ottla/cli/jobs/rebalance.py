"""The load of brokers, and a plan that evens it out. `rebalance_moves` carries the plan out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ottla.cli.client import Client
from ottla.cli.errors import JobError, TopicNotFound
from ottla.client.admin.log_dirs import describe_log_dirs
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import list_reassignments
from ottla.client.admin.routing import ask_controller
from ottla.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.rebalancing.layout import Placed
from ottla.rebalancing.planner import TooFewBrokers, plan


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
