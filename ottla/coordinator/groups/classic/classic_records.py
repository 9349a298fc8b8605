"""Classic groups as records of `__consumer_offsets`, byte for byte as in Kafka.

The coordinator reads all versions and writes key 2 with value 3, as Kafka 4.3 does. A null value is a tombstone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.groups.base.committed_offsets import OffsetKey
from ottla.coordinator.groups.base.effects import MemberProtocol
from ottla.coordinator.groups.base.offset_records import encode_string, read_offset_key
from ottla.coordinator.groups.classic.members import Member
from ottla.coordinator.runtime.record_codec import decode_key, decode_value, encode_value
from ottla.protocol.internal_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

if TYPE_CHECKING:
    from ottla.coordinator.groups.classic.group_metadata import GroupMetadata

_GROUP_VALUE_VERSION = 3


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


def group_key(group_id: str) -> bytes:
    return b"\x00\x02" + encode_string(group_id)


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


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Decode a key; return None for other group types. Raises ValueError if malformed."""
    kind = int.from_bytes(data[:2], "big")
    if kind in (0, 1):
        return read_offset_key(data)
    return GroupKey(decode_key(GroupMetadataKey, data).group) if kind == 2 else None


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
