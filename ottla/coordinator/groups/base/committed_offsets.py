"""Offsets committed by a group, and their records."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ottla.coordinator.runtime import decode_key, decode_value
from ottla.protocol.internal_records import OffsetCommitKey, OffsetCommitValue

# Committed offsets of one group, and pending offsets of transactions.

NO_TOPIC_ID = bytes(16)


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    # Retention time from requests of versions 2 to 4; -1 means the broker's retention.
    expire_timestamp: int = -1
    topic_id: bytes = NO_TOPIC_ID


class GroupOffsets:
    """Offsets by topic and partition; a topic without offsets has no entry."""

    __slots__ = ("by_topic",)

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, CommittedOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_topic)

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.by_topic.items():
            for partition, offset in partitions.items():
                yield topic, partition, offset

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, topic: str, partition: int, offset: CommittedOffset) -> None:
        partitions = self.by_topic.get(topic)
        if partitions is None:
            self.by_topic[topic] = {partition: offset}
        else:
            partitions[partition] = offset

    def remove(self, topic: str, partition: int) -> None:
        partitions = self.by_topic.get(topic)
        if partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del self.by_topic[topic]


class PendingOffsets:
    """Pending offsets of one `__consumer_offsets` partition by producer, in the order of their last commit.

    None marks an offset overtaken by a plain commit. Such an offset is never applied, but the partition stays unstable
    until the transaction ends.
    """

    __slots__ = ("by_producer",)

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[OffsetKey, CommittedOffset | None]] = {}

    def add(self, producer_id: int, key: OffsetKey, offset: CommittedOffset | None) -> None:
        self.by_producer.setdefault(producer_id, {})[key] = offset

    def overtake(self, key: OffsetKey) -> None:
        for offsets in self.by_producer.values():
            if key in offsets:
                offsets[key] = None

    def is_pending(self, key: OffsetKey) -> bool:
        return any(key in offsets for offsets in self.by_producer.values())

    def has_group(self, group_id: str) -> bool:
        return any(key.group_id == group_id for offsets in self.by_producer.values() for key in offsets)

    def end(self, producer_id: int) -> list[tuple[OffsetKey, CommittedOffset | None]]:
        return list(self.by_producer.pop(producer_id, {}).items())


# Committed offsets as records of `__consumer_offsets`, byte for byte as in Kafka.
#
# The coordinator reads all versions and writes those of Kafka 4.3: key 1 with value 4 (topic id as a tagged field), or
# value 1 if the commit sets its own expiry. A null value is a tombstone.
#
# Commits are on the hot path: hand-written code encodes all offsets and decodes the common ones, without the message
# codec.

_OFFSET_AND_EPOCH = struct.Struct(">qi").unpack_from
_INT64 = struct.Struct(">q").unpack_from


# Writing


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return offset_key_prefix(group_id, topic) + partition.to_bytes(4, "big", signed=True)


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    return b"\x00\x01" + encode_string(group_id) + encode_string(topic)


def offset_value(offset: CommittedOffset) -> bytes:
    metadata = offset.metadata.encode()
    if offset.expire_timestamp >= 0:
        return b"".join(
            (
                struct.pack(">hqh", 1, offset.offset, len(metadata)),
                metadata,
                struct.pack(">qq", offset.commit_timestamp, offset.expire_timestamp),
            )
        )
    head = struct.pack(">hqi", 4, offset.offset, offset.leader_epoch)
    length = len(metadata) + 1
    size = length.to_bytes(1, "big") if length < 0x80 else _unsigned_varint(length)
    stamp = offset.commit_timestamp.to_bytes(8, "big", signed=True)
    if offset.topic_id == NO_TOPIC_ID:
        return b"".join((head, size, metadata, stamp, b"\x00"))
    return b"".join((head, size, metadata, stamp, b"\x01\x00\x10", offset.topic_id))


def encode_string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    if len(data) > 0x7FFF:
        raise ValueError("a string of more than 32767 bytes does not fit into a __consumer_offsets record")
    return len(data).to_bytes(2, "big") + data


def _unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# Reading


def read_offset_key(data: bytes) -> OffsetKey:
    key = decode_key(OffsetCommitKey, data)
    return OffsetKey(key.group, key.topic, key.partition)


def read_offset_value(data: bytes) -> CommittedOffset:
    return _read_common_offset_value(data) or _read_any_offset_value(data)


def _read_common_offset_value(data: bytes) -> CommittedOffset | None:
    """Decode version 4 with short metadata, the most common case: a restart reads millions of these values."""
    if len(data) < 24 or data[:2] != b"\x00\x04" or not 0 < data[14] < 0x80:
        return None
    end = 14 + data[14]
    tail = data[end + 8 :]
    if tail == b"\x00":
        topic_id = NO_TOPIC_ID
    elif len(tail) == 19 and tail[:3] == b"\x01\x00\x10":
        topic_id = tail[3:]
    else:
        return None
    offset, leader_epoch = _OFFSET_AND_EPOCH(data, 2)
    return CommittedOffset(offset, leader_epoch, data[15:end].decode(), _INT64(data, end)[0], -1, topic_id)


def _read_any_offset_value(data: bytes) -> CommittedOffset:
    value = decode_value(OffsetCommitValue, data)
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )
