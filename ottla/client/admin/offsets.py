"""Partition offsets: start, end, and by timestamp; and deletion of earlier records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin.routing import timeout_ms
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, check_accepted
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.protocol.messages.fetch import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

Partition = tuple[str, int]

# Maximum wait for a leader election. Someone looking at a cluster does not benefit from a longer one.
_PATIENCE = 2.0
_END = -1  # means the high watermark instead of an offset


def earliest_offsets(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, int]:
    return offsets_by_time(cluster, partitions, EARLIEST)


def latest_offsets(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, int]:
    return offsets_by_time(cluster, partitions, LATEST)


def offsets_at(cluster: Cluster, partitions: Iterable[Partition], timestamp_ms: int) -> dict[Partition, int]:
    """Return the first offset at or after a timestamp, or the partition's end."""
    # A future timestamp is sent unchanged: the answer "none" becomes the end.
    found = offsets_by_time(cluster, partitions, max(timestamp_ms, 0))
    missing = [partition for partition, offset in found.items() if offset < 0]
    return {**found, **latest_offsets(cluster, missing)}


def offsets_by_time(
    cluster: Cluster, partitions: Iterable[Partition], moment: int, patience: float = _PATIENCE
) -> dict[Partition, int]:
    """Return the first offset at or after a timestamp or special value (-1 latest, -2 earliest, -3 max timestamp, …).

    Partitions without such a record yield -1, as answered by their leaders.
    """
    wanted = {TopicPartition(*partition): moment for partition in partitions}
    found = list_offsets(cluster, wanted, seconds=patience)
    return {partition: found[partition].offset for partition in wanted}


def available_offsets(
    cluster: Cluster, partitions: Iterable[Partition]
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    known = list(partitions)
    try:
        return earliest_offsets(cluster, known), latest_offsets(cluster, known)
    except ClientError:
        starts: dict[Partition, int] = {}
        ends: dict[Partition, int] = {}
        for partition in known:
            try:
                starts |= offsets_by_time(cluster, [partition], EARLIEST, patience=0)
                ends |= offsets_by_time(cluster, [partition], LATEST, patience=0)
            except ClientError:
                continue
        return starts, ends


def delete_records(cluster: Cluster, before: Mapping[Partition, int | None]) -> dict[Partition, int]:
    """Delete the records before an offset in each partition (None: all). Return the new start offsets."""
    left = {TopicPartition(*partition): offset for partition, offset in before.items()}
    starts: dict[Partition, int] = {}

    def ask_leaders() -> None:
        cluster.look_up({partition.topic for partition in left})
        by_leader: dict[Connection, dict[str, list[DeleteRecordsPartition]]] = {}
        for partition, offset in left.items():
            topics = by_leader.setdefault(cluster.leader(partition), {})
            topics.setdefault(partition.topic, []).append(
                DeleteRecordsPartition(
                    partition_index=partition.partition, offset=_END if offset is None else offset
                )
            )
        for leader, topics in by_leader.items():
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=each) for name, each in topics.items()],
                timeout_ms=timeout_ms(cluster),
            )
            for topic in leader.request(request, DeleteRecordsResponse).topics:
                for each in topic.partitions:
                    check_accepted(f"Partition {each.partition_index} of topic '{topic.name}'", each)
                    starts[topic.name, each.partition_index] = each.low_watermark
                    left.pop(TopicPartition(topic.name, each.partition_index), None)

    cluster.retrying(ask_leaders, {partition.topic for partition in left}, _PATIENCE)
    return {partition: starts[partition] for partition in before}
