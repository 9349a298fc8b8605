"""Log directories and throttles in kafka-reassign-partitions."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.kafka.partitions.reassignment_json import Wanted, named
from ottla.client.admin.log_dirs import ReplicaKey, ReplicaPlace, move_replicas
from ottla.client.admin.throttles import clear_broker_throttles, clear_topic_throttles

TIMEOUT_MS = 10_000


class TerseError(JobError):
    """Printed without the `Error: ` that Kafka's tool puts before all others."""


def in_order(replicas: Iterable[ReplicaKey]) -> list[ReplicaKey]:
    return sorted(replicas, key=lambda replica: (replica[2], replica[0], replica[1]))


def plural(several: Collection[object]) -> str:
    return "" if len(several) == 1 else "s"


def state_of(replica: ReplicaKey, target: str, place: ReplicaPlace | None) -> str:
    topic, number, broker = replica
    if place is None:
        return f"Partition {topic}-{number} cannot be found in any live log directory on broker {broker}."
    if place.current is None:
        return (
            f"Partition {topic}-{number} is not found in any live log dir on broker {broker}. There is likely an "
            "offline log directory on the broker."
        )
    if place.future == target:
        return f"Reassignment of replica {named(replica)} is still in progress."
    if place.future is not None:
        return (
            f"Partition {topic}-{number} on broker {broker} is being moved to log dir {place.future} instead of "
            f"{target}."
        )
    if place.current == target:
        return f"Reassignment of replica {named(replica)} completed successfully."
    return f"Partition {topic}-{number} on broker {broker} is not being moved from log dir {place.current} to {target}."


def start_moves(client: Client, wanted: Mapping[ReplicaKey, str], timeout_ms: int | None) -> None:
    """Ask until every broker has begun: one that gets a partition only now does not have the replica yet."""
    pending = dict(wanted)
    deadline = time.monotonic() + (TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
    while pending:
        for topic, number, broker in in_order(move_replicas(client.cluster, pending)):
            path = pending.pop((topic, number, broker))
            print(
                f"Successfully started moving log directory to {path} for replica {topic}-{number} with broker "
                f"{broker} "
            )
        if pending and time.monotonic() >= deadline:
            names = ",".join(map(named, in_order(pending)))
            raise TerseError(
                f"Timed out before log directory move{plural(pending)} could be started for: {names}"
            )
        if pending:
            time.sleep(0.1)


def clear_throttles(client: Client, wanted: Wanted) -> None:
    brokers = sorted({*client.cluster.nodes(), *(broker for _, each in wanted.partitions for broker in each)})
    topics = sorted({topic for (topic, _), _ in wanted.partitions})
    print(f"Clearing broker-level throttles on broker{plural(brokers)} {','.join(map(str, brokers))}")
    clear_broker_throttles(client.cluster, brokers)
    print(f"Clearing topic-level throttles on topic{plural(topics)} {','.join(topics)}")
    clear_topic_throttles(client.cluster, topics)
