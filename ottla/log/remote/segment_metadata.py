"""Metadata of remote log segments: states, allowed transitions, and conversion to the records of Kafka's topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from ottla.protocol.remote_log_records import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)


class SegmentState(IntEnum):
    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class PartitionDeleteState(IntEnum):
    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


_NEXT = {
    SegmentState.COPY_SEGMENT_STARTED: {
        SegmentState.COPY_SEGMENT_STARTED,
        SegmentState.COPY_SEGMENT_FINISHED,
        SegmentState.DELETE_SEGMENT_STARTED,
    },
    SegmentState.COPY_SEGMENT_FINISHED: {
        SegmentState.COPY_SEGMENT_FINISHED,
        SegmentState.DELETE_SEGMENT_STARTED,
    },
    SegmentState.DELETE_SEGMENT_STARTED: {
        SegmentState.DELETE_SEGMENT_STARTED,
        SegmentState.DELETE_SEGMENT_FINISHED,
    },
    SegmentState.DELETE_SEGMENT_FINISHED: {SegmentState.DELETE_SEGMENT_FINISHED},
}


def may_follow(before: SegmentState, after: SegmentState) -> bool:
    """Return True if a segment may change its state. Repeating a state is harmless."""
    return after in _NEXT[before]


class TopicIdPartition(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class RemoteLogSegment:
    """One copied segment. Its last record is at or before `end_offset`, which Kafka includes in the segment."""

    partition: TopicIdPartition
    id: bytes
    start_offset: int
    end_offset: int
    leader_epochs: Mapping[int, int]  # start offset within the segment, by epoch, in order
    size: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    state: SegmentState = SegmentState.COPY_SEGMENT_STARTED
    has_transaction_index: bool = True
    custom_metadata: bytes | None = None

    def in_state(self, state: SegmentState, broker_id: int, now_ms: int) -> RemoteLogSegment:
        return replace(self, state=state, broker_id=broker_id, event_timestamp_ms=now_ms)

    def epoch_range(self, epoch: int) -> tuple[int, int]:
        """Return the first and the last offset of one of the segment's epochs."""
        starts = sorted(self.leader_epochs.items())
        at = next(at for at, (each, _) in enumerate(starts) if each == epoch)
        end = starts[at + 1][1] - 1 if at + 1 < len(starts) else self.end_offset
        return starts[at][1], end


# Conversion to and from records.


def to_record(segment: RemoteLogSegment) -> RemoteLogSegmentMetadataRecord:
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=_segment_id(segment),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=segment.broker_id,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=segment.event_timestamp_ms,
        segment_leader_epochs=[
            SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
            for epoch, offset in sorted(segment.leader_epochs.items())
        ],
        segment_size_in_bytes=segment.size,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=segment.state,
        txn_index_empty=not segment.has_transaction_index,
    )


def from_record(record: RemoteLogSegmentMetadataRecord) -> RemoteLogSegment:
    """Raises ValueError for an unknown state."""
    name = record.remote_log_segment_id
    return RemoteLogSegment(
        partition_of(name.topic_id_partition),
        bytes(name.id),
        record.start_offset,
        record.end_offset,
        {entry.leader_epoch: entry.offset for entry in record.segment_leader_epochs},
        record.segment_size_in_bytes,
        record.max_timestamp_ms,
        record.broker_id,
        record.event_timestamp_ms,
        SegmentState(record.remote_log_segment_state),
        not record.txn_index_empty,
        None if record.custom_metadata is None else bytes(record.custom_metadata),
    )


def to_update(segment: RemoteLogSegment) -> RemoteLogSegmentMetadataUpdateRecord:
    return RemoteLogSegmentMetadataUpdateRecord(
        remote_log_segment_id=_segment_id(segment),
        broker_id=segment.broker_id,
        event_timestamp_ms=segment.event_timestamp_ms,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=segment.state,
    )


def to_partition_delete(
    partition: TopicIdPartition, state: PartitionDeleteState, broker_id: int, now_ms: int
) -> RemotePartitionDeleteMetadataRecord:
    return RemotePartitionDeleteMetadataRecord(
        topic_id_partition=_partition(partition),
        broker_id=broker_id,
        event_timestamp_ms=now_ms,
        remote_partition_delete_state=state,
    )


def partition_of(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    return TopicIdPartition(entry.name, bytes(entry.id), entry.partition)


def _partition(partition: TopicIdPartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(name=partition.topic, id=partition.topic_id, partition=partition.partition)


def _segment_id(segment: RemoteLogSegment) -> RemoteLogSegmentIdEntry:
    return RemoteLogSegmentIdEntry(topic_id_partition=_partition(segment.partition), id=segment.id)


# The partition of `__remote_log_metadata` that holds the metadata of a user partition, as Kafka chooses it.

_MASK = 0xFFFFFFFF


def metadata_partition(partition: TopicIdPartition, partitions: int) -> int:
    most = int.from_bytes(partition.topic_id[:8], "big")
    least = int.from_bytes(partition.topic_id[8:], "big")
    hashed = 1
    for part in (_hash_long(least), _hash_long(most), partition.partition):
        hashed = (31 * hashed + part) & _MASK
    return (_murmur2(hashed.to_bytes(4, "big")) & 0x7FFFFFFF) % partitions


def _hash_long(value: int) -> int:
    """Java's `Long.hashCode`."""
    return (value ^ (value >> 32)) & _MASK


def _murmur2(data: bytes) -> int:
    """Kafka's murmur2 of four bytes."""
    m = 0x5BD1E995
    k = int.from_bytes(data, "little") * m & _MASK
    k = (k ^ k >> 24) * m & _MASK
    hashed = ((0x9747B28C ^ 4) * m & _MASK) ^ k
    hashed = (hashed ^ hashed >> 13) * m & _MASK
    return hashed ^ hashed >> 15
