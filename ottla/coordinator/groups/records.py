"""Records of `__consumer_offsets`, byte for byte as in Kafka.

The version at the start of a key gives the record type: 0 and 1 are committed offsets, 2 is a group. A null value is a
tombstone. The coordinator writes the versions of Kafka 4.3 and reads all versions. Kafka 4.3 writes offset key 1 with
value 4 (topic id as a tagged field), or value 1 if the commit sets its own expiry; and group key 2 with value 3.

Commits are on the hot path: hand-written code encodes all offsets and decodes the common ones, without the message
codec.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.groups.classic.members import Member
from ottla.coordinator.groups.effects import MemberProtocol
from ottla.coordinator.groups.offsets.committed_offsets import NO_TOPIC_ID, CommittedOffset
from ottla.coordinator.runtime.record_codec import decode_key, decode_value, encode_value
from ottla.protocol.internal_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from ottla.coordinator.groups.classic.group_metadata import GroupMetadata

_OFFSET_AND_EPOCH = struct.Struct(">qi").unpack_from
_GROUP_VALUE_VERSION = 3
_INT64 = struct.Struct(">q").unpack_from


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group_id: str


@dataclass(slots=True)
class GroupValue:
    """Stored group metadata; the members carry their assignment."""

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
    """Return the value for a group without any generation yet."""
    return struct.pack(">hhihhqi", 3, 0, 0, -1, -1, now_ms, 0)


def group_value(group: GroupMetadata, assignments: dict[str, bytes]) -> bytes:
    """Encode a group. Raises ValueError if a field is too large for a record."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.members.leader,
        current_state_timestamp=-1 if group.state_timestamp is None else group.state_timestamp,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members
        ],
    )
    try:
        return encode_value(value, _GROUP_VALUE_VERSION)
    except (struct.error, OverflowError):
        raise ValueError("one of its strings is longer than 32767 bytes") from None


def _string(text: str | None) -> bytes:
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


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Decode a key; return None for other group types. Raises ValueError if malformed."""
    kind = int.from_bytes(data[:2], "big")
    if kind in (0, 1):
        key = decode_key(OffsetCommitKey, data)
        return OffsetKey(key.group, key.topic, key.partition)
    return GroupKey(decode_key(GroupMetadataKey, data).group) if kind == 2 else None


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


def read_group_value(data: bytes) -> GroupValue:
    value = decode_value(GroupMetadataValue, data)
    version = int.from_bytes(data[:2], "big")
    members = [
        Member(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout if version >= 1 else member.session_timeout,
            member.session_timeout,
            (MemberProtocol(value.protocol or "", bytes(member.subscription)),),
            bytes(member.assignment),
        )
        for member in value.members
    ]
    return GroupValue(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        members,
    )
