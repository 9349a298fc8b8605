"""Moving replicas between brokers and log directories, and the throttles that go with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError, from_code
from ottla.cli.jobs.configs import Resource, alter_configs
from ottla.cli.jobs.offsets import Partition

if TYPE_CHECKING:
    from ottla.cli.client import Client

Replica = tuple[str, int, int]  # topic, partition, broker
Assignment = dict[Partition, list[int]]

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

_MESSAGES = {
    "NO_REASSIGNMENT_IN_PROGRESS": "No partition reassignment is in progress.",
    "REASSIGNMENT_IN_PROGRESS": "A partition reassignment is in progress.",
}


@dataclass(frozen=True, slots=True)
class Reassignment:
    """One that goes on: `replicas` has those that are added and those that are removed."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


@dataclass(frozen=True, slots=True)
class Move:
    """Of one partition: brokers that are read from, and brokers that get a replica."""

    sources: frozenset[int]
    destinations: frozenset[int]


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    current: str | None = None
    future: str | None = None


# -- partitions ----------------------------------------------------------------------------------------


def list_reassignments(client: Client) -> dict[Partition, Reassignment]:
    from ottla.protocol.messages.replicas import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )

    request = ListPartitionReassignmentsRequest(timeout_ms=round(client.timeout * 1000), topics=None)
    answer = client.brokers.controller().request(request, ListPartitionReassignmentsResponse)
    if answer.error_code:
        raise from_code(answer.error_code, answer.error_message, "The list of reassignments")
    return {
        (topic.name, partition.partition_index): Reassignment(
            partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def reassign(
    client: Client,
    wanted: Mapping[Partition, list[int] | None],
    *,
    may_change_replication_factor: bool = True,
) -> dict[Partition, str]:
    """Start to move partitions, or stop it where None is wanted. What was refused, and why."""
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages.replicas import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        ReassignablePartition,
        ReassignableTopic,
    )

    controller = client.brokers.controller()
    if not may_change_replication_factor and controller.versions.get(45, (0, 0))[1] < 1:
        raise JobError("The broker is too old to hold on to the replication factor.")
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, number), replicas in wanted.items():
        topics.setdefault(topic, []).append(ReassignablePartition(partition_index=number, replicas=replicas))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=round(client.timeout * 1000),
        allow_replication_factor_change=may_change_replication_factor,
        topics=[ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = controller.request(request, AlterPartitionReassignmentsResponse)
    if answer.error_code:
        raise from_code(answer.error_code, answer.error_message, "The reassignment")
    refused = {}
    for result in answer.responses:
        for partition in result.partitions:
            if partition.error_code:
                name = ErrorCode(partition.error_code).name
                said = partition.error_message or _MESSAGES.get(name, name)
                refused[result.name, partition.partition_index] = said
    return refused


# -- throttles -----------------------------------------------------------------------------------------


def moves_of(
    ongoing: Mapping[Partition, Reassignment],
    wanted: Mapping[Partition, list[int]],
    current: Mapping[Partition, list[int]],
) -> dict[Partition, Move]:
    """What will move once `wanted` has been asked for on top of what is `ongoing`."""
    moves = {
        partition: Move(frozenset(each.replicas) - frozenset(each.adding), frozenset(each.adding))
        for partition, each in ongoing.items()
    }
    for partition, replicas in wanted.items():
        known = moves.get(partition)
        sources = known.sources if known is not None else frozenset(current[partition])
        moves[partition] = Move(sources, frozenset(replicas) - sources)
    return moves


def throttled_replicas(moves: Mapping[Partition, Move]) -> dict[str, dict[str, str]]:
    """The settings of topics that name the replicas to hold back, `partition:broker` each."""
    names: dict[str, dict[str, set[str]]] = {}
    for (topic, number), move in moves.items():
        settings = names.setdefault(topic, {LEADER_REPLICAS: set(), FOLLOWER_REPLICAS: set()})
        settings[LEADER_REPLICAS] |= {f"{number}:{broker}" for broker in move.sources}
        settings[FOLLOWER_REPLICAS] |= {f"{number}:{broker}" for broker in move.destinations}
    return {
        topic: {name: ",".join(sorted(replicas)) for name, replicas in settings.items()}
        for topic, settings in names.items()
    }


def set_throttle(client: Client, moves: Mapping[Partition, Move], rate: int) -> None:
    """Bytes per second between brokers, for the replicas that move."""
    for topic, settings in throttled_replicas(moves).items():
        alter_configs(client, Resource("topic", topic), set_=settings)
    brokers = {broker for move in moves.values() for broker in (*move.sources, *move.destinations)}
    for broker in sorted(brokers):
        rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
        alter_configs(client, Resource("broker", str(broker)), set_=rates)


def set_log_dir_throttle(client: Client, brokers: Iterable[int], rate: int) -> None:
    for broker in sorted(set(brokers)):
        alter_configs(client, Resource("broker", str(broker)), set_={LOG_DIR_RATE: str(rate)})


def clear_broker_throttles(client: Client, brokers: Iterable[int]) -> None:
    for broker in brokers:
        alter_configs(
            client, Resource("broker", str(broker)), delete=(LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
        )


def clear_topic_throttles(client: Client, topics: Iterable[str]) -> None:
    for topic in topics:
        alter_configs(client, Resource("topic", topic), delete=(LEADER_REPLICAS, FOLLOWER_REPLICAS))


# -- log directories -----------------------------------------------------------------------------------


def places(client: Client, topics: Collection[str]) -> dict[Replica, ReplicaPlace]:
    """The log directories in which the replicas of topics lie, and those they are moved to."""
    from ottla.cli.jobs.log_dirs import describe_replicas

    found: dict[Replica, ReplicaPlace] = {}
    for replica in describe_replicas(client, topics):
        key = (replica.topic, replica.partition, replica.broker)
        known = found.get(key, ReplicaPlace())
        if replica.is_future:
            found[key] = ReplicaPlace(known.current, replica.log_dir)
        else:
            found[key] = ReplicaPlace(replica.log_dir, known.future)
    return found


def move_replicas(client: Client, wanted: Mapping[Replica, str]) -> set[Replica]:
    """Ask the brokers to move replicas into other log directories; those that they do not have yet are left out."""
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages.replicas import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
        AlterReplicaLogDirTopic,
    )

    by_broker: dict[int, dict[str, dict[str, list[int]]]] = {}
    for (topic, number, broker), path in wanted.items():
        by_broker.setdefault(broker, {}).setdefault(path, {}).setdefault(topic, []).append(number)
    started = set()
    for broker, directories in by_broker.items():
        connection = client.brokers.node(broker)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=each) for name, each in topics.items()
                    ],
                )
                for path, topics in directories.items()
            ]
        )
        answer = connection.request(request, AlterReplicaLogDirsResponse)
        for topic_result in answer.results:
            for result in topic_result.partitions:
                name = f"{topic_result.topic_name}-{result.partition_index}-{broker}"
                if result.error_code == 0:
                    started.add((topic_result.topic_name, result.partition_index, broker))
                elif result.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    raise JobError(f"Failed to alter dir for {name}: {ErrorCode(result.error_code).name}")
    return started
