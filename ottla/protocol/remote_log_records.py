"""Record values of `__remote_log_metadata` (KIP-405), framed as in Kafka: frame version, record type, version, body."""

from __future__ import annotations

from ottla.protocol.codec import (
    Buffer,
    Data,
    MalformedMessage,
    Struct,
    array,
    binary,
    boolean,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from ottla.protocol.codegen import rest_of_varint, unsigned_varint


class TopicIdPartitionEntry(Struct):
    name: str = string()
    id: bytes = uuid()
    partition: int = int32()


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry)
    id: bytes = uuid()


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int = int32()
    offset: int = int64()


class RemoteLogSegmentMetadataRecord(Data, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry = struct(RemoteLogSegmentIdEntry)
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry)
    segment_size_in_bytes: int = int32()
    custom_metadata: bytes | None = binary(nullable="0+", default=None)
    remote_log_segment_state: int = int8()
    txn_index_empty: bool = boolean(tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Data, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry = struct(RemoteLogSegmentIdEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    custom_metadata: bytes | None = binary(nullable="0+", default=None)
    remote_log_segment_state: int = int8()


class RemotePartitionDeleteMetadataRecord(Data, versions="0", flexible="0+"):
    topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    remote_partition_delete_state: int = int8()


RemoteLogMetadataRecord = (
    RemoteLogSegmentMetadataRecord
    | RemoteLogSegmentMetadataUpdateRecord
    | RemotePartitionDeleteMetadataRecord
)

_FRAME_VERSION = 1
_RECORD_VERSION = 0
_KEYS: dict[int, type[Data]] = {
    0: RemoteLogSegmentMetadataRecord,
    1: RemoteLogSegmentMetadataUpdateRecord,
    2: RemotePartitionDeleteMetadataRecord,
}
_KEY_OF = {record: key for key, record in _KEYS.items()}


def encode_record(record: RemoteLogMetadataRecord) -> bytes:
    head = (_FRAME_VERSION, _KEY_OF[type(record)], _RECORD_VERSION)
    return b"".join(map(unsigned_varint, head)) + record.encode(_RECORD_VERSION)


def decode_record(value: Buffer) -> RemoteLogMetadataRecord | None:
    """Return None for a record type of a later version, such as a snapshot. Raises MalformedMessage."""
    try:
        frame, position = _varint(value, 0)
        key, position = _varint(value, position)
        version, position = _varint(value, position)
    except IndexError:
        raise MalformedMessage("the record is cut short") from None
    if frame != _FRAME_VERSION:
        raise MalformedMessage(f"frame version {frame}")
    if key not in _KEYS or version != _RECORD_VERSION:
        return None
    return _KEYS[key].decode(value, version, position)  # type: ignore[return-value]


def _varint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = buffer[position]
    return rest_of_varint(buffer, position + 1, value) if value > 127 else (value, position + 1)
