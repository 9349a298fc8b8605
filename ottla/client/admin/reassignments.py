"""Partition reassignments, leader elections and replication throttles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ottla.client.admin.configs import Resource, alter_configs
from ottla.client.admin.offsets import Partition
from ottla.client.admin.routing import ask_controller, timeout_ms, when_ready
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, check_accepted, error_code
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import replicas as messages

# Partition reassignments and leader elections, both performed by the controller.

Assignment = dict[Partition, list[int]]

_UNCLEAN = 1

_MESSAGES = {
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "A partition reassignment is in progress.",
}


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A current reassignment: `replicas` includes added and removed ones."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def list_reassignments(cluster: Cluster) -> dict[Partition, Reassignment]:
    request = messages.ListPartitionReassignmentsRequest(timeout_ms=timeout_ms(cluster), topics=None)

    def check(answer: messages.ListPartitionReassignmentsResponse) -> dict[Partition, Reassignment]:
        check_accepted("The list of reassignments", answer)
        return {
            (topic.name, partition.partition_index): Reassignment(
                partition.replicas, partition.adding_replicas, partition.removing_replicas
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    return ask_controller(cluster, request, messages.ListPartitionReassignmentsResponse, check)


def keeps_replication_factor(cluster: Cluster) -> bool:
    _, newest = cluster.controller().versions.get(messages.AlterPartitionReassignmentsRequest.api_key, (0, 0))
    return newest >= 1


def reassign(
    cluster: Cluster,
    wanted: Mapping[Partition, list[int] | None],
    *,
    may_change_replication_factor: bool = True,
) -> dict[Partition, str]:
    """Start moving partitions, or cancel a move where None is given. Return the reasons of refusals."""
    if not may_change_replication_factor and not keeps_replication_factor(cluster):
        raise ClientError("The broker is too old to hold on to the replication factor.")
    topics: dict[str, list[messages.ReassignablePartition]] = {}
    for (topic, number), replicas in wanted.items():
        topics.setdefault(topic, []).append(
            messages.ReassignablePartition(partition_index=number, replicas=replicas)
        )
    request = messages.AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms(cluster),
        allow_replication_factor_change=may_change_replication_factor,
        topics=[messages.ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
    )

    def check(answer: messages.AlterPartitionReassignmentsResponse) -> dict[Partition, str]:
        check_accepted("The reassignment", answer)
        refused = {}
        for result in answer.responses:
            for partition in result.partitions:
                if partition.error_code:
                    code = error_code(partition.error_code)
                    reason = partition.error_message or _MESSAGES.get(code, code.name)
                    refused[result.name, partition.partition_index] = reason
        return refused

    return ask_controller(cluster, request, messages.AlterPartitionReassignmentsResponse, check)


def elect_leaders(
    cluster: Cluster, election_type: int, partitions: Sequence[Partition] | None
) -> dict[Partition, tuple[str, str | None]]:
    """Return Kafka's error name and message for each partition. None selects all partitions."""
    outcome = _elect(cluster, election_type, partitions, cluster.controller)
    if election_type == _UNCLEAN:
        # Only the broker that lost a partition's log can start it with an empty one.
        for node in list(cluster.nodes().values()):
            refused = [
                key for key, (error, _) in outcome.items() if error == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
            ]
            if refused:
                outcome |= _elect(cluster, election_type, refused, partial(cluster.connection, node.address))
    return outcome


def _elect(
    cluster: Cluster,
    election_type: int,
    partitions: Sequence[Partition] | None,
    connect: Callable[[], Connection],
) -> dict[Partition, tuple[str, str | None]]:
    asked: dict[str, list[int]] = {}
    for topic, number in partitions or ():
        asked.setdefault(topic, []).append(number)
    request = messages.ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if partitions is None
        else [messages.TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in asked.items()],
        timeout_ms=timeout_ms(cluster),
    )

    def check(answer: messages.ElectLeadersResponse) -> dict[Partition, tuple[str, str | None]]:
        check_accepted("The election", answer)
        return {
            (topic.topic, result.partition_id): (error_code(result.error_code).name, result.error_message)
            for topic in answer.replica_election_results
            for result in topic.partition_result
        }

    return when_ready(cluster, lambda: check(connect().request(request, messages.ElectLeadersResponse)))


# Replication throttles: broker rates, and throttled replicas of topics during reassignments.

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True)
class Move:
    """Source and target brokers of one partition."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves_of(
    ongoing: Mapping[Partition, Reassignment],
    wanted: Mapping[Partition, list[int]],
    current: Mapping[Partition, list[int]],
) -> dict[Partition, Move]:
    """Return all moves after adding `wanted` to the `ongoing` reassignments."""
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
    """Return the topic settings that name the throttled replicas, each as `partition:broker`."""
    names: dict[str, dict[str, set[str]]] = {}
    for (topic, number), move in moves.items():
        settings = names.setdefault(topic, {LEADER_REPLICAS: set(), FOLLOWER_REPLICAS: set()})
        settings[LEADER_REPLICAS] |= {f"{number}:{broker}" for broker in move.sources}
        settings[FOLLOWER_REPLICAS] |= {f"{number}:{broker}" for broker in move.destinations}
    return {
        topic: {name: ",".join(sorted(replicas)) for name, replicas in settings.items()}
        for topic, settings in names.items()
    }


def set_throttle(cluster: Cluster, moves: Mapping[Partition, Move], rate: int) -> None:
    """Limit the bytes per second between brokers for moving replicas."""
    for topic, settings in throttled_replicas(moves).items():
        alter_configs(cluster, Resource("topic", topic), set_=settings)
    brokers = {broker for move in moves.values() for broker in (*move.sources, *move.destinations)}
    for broker in sorted(brokers):
        rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
        alter_configs(cluster, Resource("broker", str(broker)), set_=rates)


def set_log_dir_throttle(cluster: Cluster, brokers: Iterable[int], rate: int) -> None:
    for broker in sorted(set(brokers)):
        alter_configs(cluster, Resource("broker", str(broker)), set_={LOG_DIR_RATE: str(rate)})


def clear_broker_throttles(cluster: Cluster, brokers: Iterable[int]) -> None:
    for broker in brokers:
        alter_configs(
            cluster, Resource("broker", str(broker)), delete=(LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
        )


def clear_topic_throttles(cluster: Cluster, topics: Iterable[str]) -> None:
    for topic in topics:
        alter_configs(cluster, Resource("topic", topic), delete=(LEADER_REPLICAS, FOLLOWER_REPLICAS))
