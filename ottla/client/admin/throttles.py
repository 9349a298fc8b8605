"""Replication throttles: broker rates, and throttled replicas of topics during reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.configs import Resource, alter_configs
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import Reassignment
from ottla.client.cluster import Cluster

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
