"""Log directories of brokers: their replicas and sizes, and moves between directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, error_code
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import replicas as messages

ReplicaKey = tuple[str, int, int]  # topic, partition, broker


@dataclass(frozen=True, slots=True)
class Replica:
    broker: int
    log_dir: str
    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool  # being moved to this directory


@dataclass(frozen=True, slots=True)
class LogDir:
    path: str
    error: str | None  # Kafka's error name for the directory
    replicas: list[Replica]
    # Size of the directory's volume; None if the broker does not report it.
    total_bytes: int | None = None
    usable_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaPlace:
    """The directory of a replica, and the target of a current move."""

    current: str | None = None
    future: str | None = None


def describe_log_dirs(cluster: Cluster, broker: int, topics: Iterable[str] = ()) -> list[LogDir]:
    """Return a broker's log directories with the replicas of these topics, by default of all."""
    names = list(topics)
    asked = None
    if names:
        asked = [
            messages.DescribableLogDirTopic(
                topic=topic.name or "", partitions=[each.partition_index for each in topic.partitions]
            )
            for topic in cluster.metadata(names).topics
            if not topic.error_code
        ]
    return _ask(cluster, broker, asked)


def describe_volumes(cluster: Cluster, broker: int) -> list[LogDir]:
    """Return a broker's log directories without replicas, which is cheap for any number of them."""
    return _ask(cluster, broker, [])


def _ask(cluster: Cluster, broker: int, asked: list[messages.DescribableLogDirTopic] | None) -> list[LogDir]:
    answer = cluster.node(broker).request(
        messages.DescribeLogDirsRequest(topics=asked), messages.DescribeLogDirsResponse
    )
    if answer.error_code:
        raise ClientError(f"Broker {broker}: {error_code(answer.error_code).name}.")
    return [
        LogDir(
            directory.log_dir,
            error_code(directory.error_code).name if directory.error_code else None,
            [
                Replica(
                    broker,
                    directory.log_dir,
                    topic.name,
                    partition.partition_index,
                    partition.partition_size,
                    partition.offset_lag,
                    partition.is_future_key,
                )
                for topic in directory.topics
                for partition in topic.partitions
            ],
            None if directory.total_bytes < 0 else directory.total_bytes,
            None if directory.usable_bytes < 0 else directory.usable_bytes,
        )
        for directory in answer.results
    ]


def describe_replicas(cluster: Cluster, topics: Iterable[str]) -> list[Replica]:
    """Return the replicas of topics in all log directories of all brokers. Failed directories have none."""
    names = list(topics)
    if not names:
        return []
    return [
        replica
        for broker in list(cluster.nodes())
        for directory in describe_log_dirs(cluster, broker, names)
        for replica in directory.replicas
    ]


def sizes_on_leaders(
    cluster: Cluster, topics: Iterable[str], leaders: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    try:
        replicas = describe_replicas(cluster, topics)
    except ClientError:
        return {}
    return {
        (replica.topic, replica.partition): replica.size
        for replica in replicas
        if not replica.is_future and leaders.get((replica.topic, replica.partition)) == replica.broker
    }


def places(cluster: Cluster, topics: Iterable[str]) -> dict[ReplicaKey, ReplicaPlace]:
    found: dict[ReplicaKey, ReplicaPlace] = {}
    for replica in describe_replicas(cluster, topics):
        key = (replica.topic, replica.partition, replica.broker)
        known = found.get(key, ReplicaPlace())
        if replica.is_future:
            found[key] = ReplicaPlace(known.current, replica.log_dir)
        else:
            found[key] = ReplicaPlace(replica.log_dir, known.future)
    return found


def move_replicas(cluster: Cluster, wanted: Mapping[ReplicaKey, str]) -> set[ReplicaKey]:
    """Ask the brokers to move replicas to other log directories. The result omits replicas unknown to their broker."""
    by_broker: dict[int, dict[str, dict[str, list[int]]]] = {}
    for (topic, number, broker), path in wanted.items():
        by_broker.setdefault(broker, {}).setdefault(path, {}).setdefault(topic, []).append(number)
    started = set()
    for broker, directories in by_broker.items():
        request = messages.AlterReplicaLogDirsRequest(
            dirs=[
                messages.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        messages.AlterReplicaLogDirTopic(name=name, partitions=each)
                        for name, each in topics.items()
                    ],
                )
                for path, topics in directories.items()
            ]
        )
        for topic_result in (
            cluster.node(broker).request(request, messages.AlterReplicaLogDirsResponse).results
        ):
            for result in topic_result.partitions:
                key = (topic_result.topic_name, result.partition_index, broker)
                if result.error_code == 0:
                    started.add(key)
                elif result.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    name = "-".join(map(str, key))
                    raise ClientError(f"Failed to alter dir for {name}: {error_code(result.error_code).name}")
    return started
