"""What lies on the disks of brokers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError

if TYPE_CHECKING:
    from ottla.cli.client import Client


@dataclass(frozen=True, slots=True)
class Replica:
    broker: int
    log_dir: str
    topic: str
    partition: int
    size: int
    offset_lag: int
    is_future: bool  # being moved into this directory


@dataclass(frozen=True, slots=True)
class LogDir:
    path: str
    error: str | None  # Kafka's name of what is wrong with the directory
    replicas: list[Replica]


def describe_log_dirs(client: Client, broker: int, topics: Iterable[str] = ()) -> list[LogDir]:
    """The log directories of a broker with the replicas of topics in them; of all topics if none is named."""
    from ottla.cli.jobs.topics import describe_topics
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages.replicas import (
        DescribableLogDirTopic,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    names = list(topics)
    asked = [
        DescribableLogDirTopic(topic=topic.name, partitions=[p.partition for p in topic.partitions])
        for topic in describe_topics(client, names, skip_missing=True)
    ]
    request = DescribeLogDirsRequest(topics=asked if names else None)
    answer = client.brokers.node(broker).request(request, DescribeLogDirsResponse)
    if answer.error_code:
        raise JobError(f"Broker {broker}: {ErrorCode(answer.error_code).name}.")
    return [
        LogDir(
            directory.log_dir,
            ErrorCode(directory.error_code).name if directory.error_code else None,
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
        )
        for directory in answer.results
    ]


def describe_replicas(client: Client, topics: Iterable[str]) -> list[Replica]:
    """The replicas of topics in every log directory of every broker; a directory that failed has none."""
    names = list(topics)
    if not names:
        return []
    return [
        replica
        for broker in client.brokers.nodes()
        for directory in describe_log_dirs(client, broker, names)
        for replica in directory.replicas
    ]


def sizes_on_leaders(
    client: Client, topics: Iterable[str], leaders: dict[tuple[str, int], int | None]
) -> dict[tuple[str, int], int]:
    """Bytes of each partition where its leader is; nothing where brokers do not tell."""
    try:
        replicas = describe_replicas(client, topics)
    except JobError:
        return {}
    return {
        (replica.topic, replica.partition): replica.size
        for replica in replicas
        if not replica.is_future and leaders.get((replica.topic, replica.partition)) == replica.broker
    }
