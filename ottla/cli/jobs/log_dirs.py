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


def describe_replicas(client: Client, topics: Iterable[str]) -> list[Replica]:
    """The replicas of topics in every log directory of every broker."""
    from ottla.cli.jobs.topics import describe_topics
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages.describe_log_dirs import (
        DescribableLogDirTopic,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    request = DescribeLogDirsRequest(
        topics=[
            DescribableLogDirTopic(topic=topic.name, partitions=[p.partition for p in topic.partitions])
            for topic in describe_topics(client, list(topics), skip_missing=True)
        ]
    )
    cluster = client.result(client.admin.describe_cluster(request_timeout=client.timeout), "The cluster")
    replicas = []
    for node in sorted(cluster.nodes, key=lambda node: int(node.id)):
        with client.connection(node.host, node.port) as connection:
            answer = connection.request(request, DescribeLogDirsResponse)
        if answer.error_code:
            raise JobError(f"Broker {node.id}: {ErrorCode(answer.error_code).name}.")
        for directory in answer.results:
            if directory.error_code:
                continue  # a directory that failed; its replicas are on other brokers
            replicas += [
                Replica(
                    node.id,
                    directory.log_dir,
                    topic.name,
                    partition.partition_index,
                    partition.partition_size,
                    partition.offset_lag,
                    partition.is_future_key,
                )
                for topic in directory.topics
                for partition in topic.partitions
            ]
    return replicas


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
