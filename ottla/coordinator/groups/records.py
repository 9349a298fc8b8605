"""The records of `__consumer_offsets`, byte for byte Kafka's.

Keys carry a version that says what they are: 0 and 1 a committed offset, 2 a group. A null value deletes.
Written are the versions that Kafka 4.3 writes: offset key 1 with value 4 (topic id as a tagged field; value 1
where the commit names its own expiry), group key 2 with value 3. All versions are read.
Written by hand rather than with the message codec because a commit is on the hot path.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.groups.classic.members import Member
from ottla.coordinator.groups.effects import MemberProtocol
from ottla.coordinator.groups.offsets.committed_offsets import NO_TOPIC_ID, CommittedOffset

if TYPE_CHECKING:
    from ottla.coordinator.groups.classic.group_metadata import GroupMetadata

_OFFSET_AND_EPOCH = struct.Struct(">qi").unpack_from
_INT64 = struct.Struct(">q").unpack_from


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group_id: str


@dataclass(slots=True)
class GroupValue:
    """A group as it was stored; the members carry their assignment."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp: int = -1
    members: list[Member] = field(default_factory=list)


# Writing


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return offset_key_prefix(group_id, topic) + partition.to_bytes(4, "big", signed=True)


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """The part of the key that all partitions of a topic share."""
    return b"\x00\x01" + _string(group_id) + _string(topic)


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


def group_key(group_id: str) -> bytes:
    return b"\x00\x02" + _string(group_id)


def new_group_value(now_ms: int) -> bytes:
    """A group that nobody has joined yet."""
    return struct.pack(">hhihhqi", 3, 0, 0, -1, -1, now_ms, 0)


def group_value(group: GroupMetadata, assignments: dict[str, bytes]) -> bytes:
    timestamp = -1 if group.state_timestamp is None else group.state_timestamp
    parts = [
        b"\x00\x03",
        _string(group.protocol_type or ""),
        struct.pack(">i", group.generation_id),
        _string(group.protocol_name),
        _string(group.members.leader),
        struct.pack(">qi", timestamp, len(group.members)),
    ]
    for member in group.members:
        parts += (
            _string(member.member_id),
            _string(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            _bytes(member.metadata(group.protocol_name)),
            _bytes(assignments.get(member.member_id, b"")),
        )
    return b"".join(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    if len(data) > 0x7FFF:
        raise ValueError("a string of more than 32767 bytes does not fit into a __consumer_offsets record")
    return len(data).to_bytes(2, "big") + data


def _bytes(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# Reading


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """None for the keys of other kinds of group. Raises ValueError for bytes that are no key."""
    reader = _Reader(data)
    version = reader.int16()
    if version in (0, 1):
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if version == 2:
        return GroupKey(reader.string())
    return None


def read_offset_value(data: bytes) -> CommittedOffset:
    return _read_common_offset_value(data) or _read_any_offset_value(data)


def _read_common_offset_value(data: bytes) -> CommittedOffset | None:
    """Version 4 with short metadata, which nearly all are: a restart reads them by the million."""
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
    reader = _Reader(data)
    version = reader.version(4)
    reader.flexible = version >= 4
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_timestamp = reader.int64()
    expire_timestamp = reader.int64() if version == 1 else -1
    topic_id = reader.tags().get(0, NO_TOPIC_ID) if reader.flexible else NO_TOPIC_ID
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id)


def read_group_value(data: bytes) -> GroupValue:
    reader = _Reader(data)
    version = reader.version(4)
    reader.flexible = version >= 4
    value = GroupValue(reader.string(), reader.int32(), reader.nullable_string(), reader.nullable_string())
    if version >= 2:
        value.state_timestamp = reader.int64()
    for _ in range(reader.array()):
        value.members.append(_read_member(reader, version, value.protocol_name or ""))
    if reader.flexible:
        reader.tags()
    return value


def _read_member(reader: _Reader, version: int, protocol_name: str) -> Member:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = reader.blob()
    assignment = reader.blob()
    if reader.flexible:
        reader.tags()
    return Member(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms if version >= 1 else session_timeout_ms,
        session_timeout_ms,
        (MemberProtocol(protocol_name, subscription),),
        assignment,
    )


class _Reader:
    """A cursor over one key or value; everything that leaves the bytes is a ValueError."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.flexible = False

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise ValueError(f"a record of __consumer_offsets ends before its byte {end}")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def version(self, highest: int) -> int:
        version = self.int16()
        if not 0 <= version <= highest:
            raise ValueError(f"version {version} of a __consumer_offsets value is not known")
        return version

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def unsigned_varint(self) -> int:
        number = shift = 0
        while shift < 35:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
        raise ValueError("a varint of a __consumer_offsets record does not end")

    def nullable_string(self) -> str | None:
        size = self.unsigned_varint() - 1 if self.flexible else self.int16()
        return None if size < 0 else self.take(size).decode()

    def string(self) -> str:
        return self.nullable_string() or ""

    def blob(self) -> bytes:
        size = self.unsigned_varint() - 1 if self.flexible else self.int32()
        return self.take(max(size, 0))

    def array(self) -> int:
        return self.unsigned_varint() - 1 if self.flexible else self.int32()

    def tags(self) -> dict[int, bytes]:
        tags = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            tags[tag] = self.take(self.unsigned_varint())
        return tags
