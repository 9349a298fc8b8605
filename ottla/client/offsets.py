"""Offsets of partitions, by position, time and leader epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import NamedTuple

from ottla.client.cluster import Cluster, CoordinatorType, TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, check_accepted, error_code
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

# Offsets: of records by time, and of consumer groups.

#: Special values instead of a timestamp.
LATEST = -1
EARLIEST = -2

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

_NO_LEADER_EPOCH = -1


class FoundOffset(NamedTuple):
    offset: int  # -1 without a record at or after the timestamp
    timestamp: int
    leader_epoch: int = _NO_LEADER_EPOCH  # epoch of that record, or of the leader for LATEST


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int = READ_UNCOMMITTED,
    seconds: float | None = None,
) -> dict[TopicPartition, FoundOffset]:
    """Return by partition the first offset at or after a time in milliseconds, or LATEST or EARLIEST.

    Retriable failures are retried for `seconds`.
    """
    found: dict[TopicPartition, FoundOffset] = {}

    def ask_leaders() -> None:
        cluster.look_up({partition.topic for partition in timestamps})
        by_leader: dict[Connection, list[TopicPartition]] = {}
        for partition in timestamps:
            if partition not in found:
                by_leader.setdefault(cluster.leader(partition), []).append(partition)
        for leader, partitions in by_leader.items():
            found.update(_ask(leader, {each: timestamps[each] for each in partitions}, isolation_level))

    cluster.retrying(ask_leaders, {partition.topic for partition in timestamps}, seconds)
    return found


def _ask(
    leader: Connection, timestamps: Mapping[TopicPartition, int], isolation_level: int
) -> dict[TopicPartition, FoundOffset]:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=each.partition, timestamp=timestamps[each])
                    for each in partitions
                ],
            )
            for topic, partitions in _by_topic(timestamps)
        ],
        timeout_ms=30_000,
    )
    found = {}
    for topic in leader.request(request, ListOffsetsResponse).topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            check_accepted(f"Partition {partition}", answer)
            found[partition] = FoundOffset(answer.offset, answer.timestamp, answer.leader_epoch)
    return found


def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, int],
    seconds: float | None = None,
    *,
    metadata: Mapping[TopicPartition, str] | None = None,
) -> None:
    """Commit offsets for a group without members, with notes from `metadata`."""
    notes = metadata or {}
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=each.partition,
                        committed_offset=offsets[each],
                        committed_leader_epoch=_NO_LEADER_EPOCH,
                        committed_metadata=notes.get(each, ""),
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in _by_topic(offsets)
        ],
    )

    def commit() -> None:
        coordinator = cluster.coordinators(CoordinatorType.GROUP, [group])[group]
        connection = cluster.connection(coordinator.address)
        # Version 9 is the last with topic names.
        answer = connection.request(request, OffsetCommitResponse, max_version=9)
        for topic in answer.topics:
            for partition in topic.partitions:
                code = error_code(partition.error_code)
                if code == ErrorCode.UNKNOWN_MEMBER_ID:
                    raise ClientError(f"Consumer group '{group}' has members of its own.", code)
                if code != ErrorCode.NONE:
                    raise ClientError(f"Group '{group}' cannot commit offsets: {code.name}.", code)

    cluster.retrying(commit, seconds=seconds)


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[TopicPartition]]]:
    for topic, members in groupby(sorted(partitions), key=lambda partition: partition.topic):
        yield topic, list(members)


# Ends of leader epochs, which reveal whether a log still contains the records that a client has read.


class EpochEnd(NamedTuple):
    """The largest epoch at or below the requested one, and the offset after its last record; -1 if unknown."""

    epoch: int
    end_offset: int


def epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], seconds: float | None = None
) -> dict[TopicPartition, EpochEnd]:
    """Ask each partition's leader about an epoch. Retriable failures are retried for `seconds`."""
    found: dict[TopicPartition, EpochEnd] = {}

    def ask_leaders() -> None:
        cluster.look_up({partition.topic for partition in epochs})
        by_leader: dict[Connection, list[TopicPartition]] = {}
        for partition in epochs:
            if partition not in found:
                by_leader.setdefault(cluster.leader(partition), []).append(partition)
        for leader, partitions in by_leader.items():
            found.update(_ask_leader(leader, {each: epochs[each] for each in partitions}))

    cluster.retrying(ask_leaders, {partition.topic for partition in epochs}, seconds)
    return found


def _ask_leader(leader: Connection, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=each.partition, current_leader_epoch=-1, leader_epoch=epochs[each]
                    )
                    for each in members
                ],
            )
            for topic, members in groupby(sorted(epochs), key=lambda each: each.topic)
        ],
    )
    found = {}
    for topic in leader.request(request, OffsetForLeaderEpochResponse).topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.topic, answer.partition)
            check_accepted(f"Partition {partition}", answer)
            found[partition] = EpochEnd(answer.leader_epoch, answer.end_offset)
    return found
