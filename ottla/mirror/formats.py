"""Heartbeats, checkpoints and offset syncs, byte for byte as MirrorMaker writes and reads them.

They are structs of the Kafka protocol: strings have a two-byte length, and numbers are big-endian.
"""

from __future__ import annotations

import json
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.client.cluster import TopicPartition

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_VERSION = 0


class Heartbeat(NamedTuple):
    source: str
    target: str
    timestamp: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return _INT16.pack(_VERSION) + _INT64.pack(self.timestamp)


class Checkpoint(NamedTuple):
    """Offset of a group on the source and on the target. The topic has its target name."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    offset: int
    metadata: str

    def key(self) -> bytes:
        return _string(self.group) + _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return (
            _INT16.pack(_VERSION)
            + _INT64.pack(self.upstream_offset)
            + _INT64.pack(self.offset)
            + _string(self.metadata)
        )


class OffsetSync(NamedTuple):
    """Offsets of the same record on the source and on the target. The topic has its source name."""

    topic: str
    partition: int
    upstream_offset: int
    offset: int

    def key(self) -> bytes:
        return _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _INT64.pack(self.upstream_offset) + _INT64.pack(self.offset)


class Run(NamedTuple):
    """Run of `length` records with consecutive offsets on both sides."""

    start: int
    target_start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def target_end(self) -> int:
        return self.target_start + self.length


def run_key(partition: TopicPartition, run: Run) -> bytes:
    return _string(partition.topic) + _INT32.pack(partition.partition) + _INT64.pack(run.start)


def run_value(run: Run) -> bytes:
    return _INT64.pack(run.target_start) + _INT64.pack(run.length)


def read_run(key: bytes, value: bytes) -> tuple[TopicPartition, Run]:
    topic, position = _read_string(key, 0)
    (partition,) = _INT32.unpack_from(key, position)
    (start,) = _INT64.unpack_from(key, position + 4)
    (target_start,) = _INT64.unpack_from(value)
    (length,) = _INT64.unpack_from(value, 8)
    return TopicPartition(topic, partition), Run(start, target_start, length)


_CONNECTOR = "MirrorSourceConnector"


def position_key(source: str, partition: TopicPartition) -> bytes:
    """Encode the key of a position.

    Connect compares keys as bytes, so the fields follow the order of Java's HashMap.
    """
    named = {"cluster": source, "partition": partition.partition, "topic": partition.topic}
    return json.dumps([_CONNECTOR, named], separators=(",", ":"), ensure_ascii=False).encode()


def position_value(last_offset: int, topic_id: str) -> bytes:
    """Encode the offset of the last copied record. The topic id reveals a recreated topic; MirrorMaker ignores it."""
    return json.dumps({"offset": last_offset, "topicId": topic_id}, separators=(",", ":")).encode()


class Position(NamedTuple):
    last_offset: int
    topic_id: str  # empty if written by MirrorMaker


def read_position(
    key: bytes, value: bytes | None, source: str
) -> tuple[TopicPartition, Position | None] | None:
    """Decode the position of a partition. Return None if the key belongs to another source or connector."""
    try:
        connector, where = json.loads(key)
        offset = None if value is None else json.loads(value)
        if connector != _CONNECTOR or where["cluster"] != source:
            return None
        partition = TopicPartition(where["topic"], int(where["partition"]))
        if offset is None:
            return partition, None
        return partition, Position(int(offset["offset"]), str(offset.get("topicId", "")))
    except (ValueError, KeyError, TypeError):
        return None


def read_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    source, position = _read_string(key, 0)
    target, _ = _read_string(key, position)
    return Heartbeat(source, target, _INT64.unpack_from(value, 2)[0])


def read_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    group, position = _read_string(key, 0)
    topic, position = _read_string(key, position)
    (partition,) = _INT32.unpack_from(key, position)
    upstream, offset = _INT64.unpack_from(value, 2)[0], _INT64.unpack_from(value, 10)[0]
    return Checkpoint(group, topic, partition, upstream, offset, _read_string(value, 18)[0])


def read_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    topic, position = _read_string(key, 0)
    (partition,) = _INT32.unpack_from(key, position)
    return OffsetSync(topic, partition, _INT64.unpack_from(value)[0], _INT64.unpack_from(value, 8)[0])


#: Errors raised when decoding records that another program wrote to these topics.
Unreadable = (StructError, UnicodeDecodeError, IndexError)


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(data, position)
    end = position + 2 + length
    return data[position + 2 : end].decode(), end
