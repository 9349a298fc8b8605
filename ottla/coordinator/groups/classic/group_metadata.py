"""State of a classic group, and its records."""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coordinator.groups.base.base_group import Group, GroupConfig
from ottla.coordinator.groups.base.committed_offsets import OffsetKey, encode_string, read_offset_key
from ottla.coordinator.groups.base.effects import (
    Answer,
    CancelTimer,
    Effect,
    GroupState,
    JoinRequest,
    JoinResult,
    LeavingMember,
    MemberProtocol,
    SetTimer,
    SyncRequest,
    SyncResult,
    session_timer,
)
from ottla.coordinator.groups.classic.members import (
    CONSUMER_PROTOCOL_TYPE,
    Member,
    Membership,
    subscribed_topics,
)
from ottla.coordinator.runtime import decode_key, decode_value, encode_value
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

# State of a classic group, checks for incoming requests, and their responses.
#
# `group.py` has the state transitions.

log = logging.getLogger(__name__)


class GroupMetadata(Group):
    group_type = "classic"
    state: GroupState
    protocol_type: str | None

    __slots__ = (
        "_config",
        "_effects",
        "generation_id",
        "members",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp",
        "topics",
    )

    def __init__(self, group_id: str, config: GroupConfig, now_ms: int) -> None:
        super().__init__(group_id)
        self.members = Membership()
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_timestamp: int | None = now_ms
        self.generation_id = 0
        self.protocol_type = None
        self.protocol_name: str | None = None
        # Topics to which the members subscribe; None if unknown.
        self.topics: set[str] | None = None
        self._config = config
        self._effects: list[Effect] = []

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def has_pending_members(self) -> bool:
        return bool(self.members.pending)

    @property
    def offsets_may_expire(self) -> bool:
        if self.protocol_type is None or self.is_empty:
            return True
        return self.state is GroupState.STABLE and self.topics is not None

    @property
    def empty_since(self) -> int | None:
        """Return the time at which the last member left, or None if nobody ever joined."""
        return self.state_timestamp if self.protocol_type is not None and self.is_empty else None

    def is_subscribed_to(self, topic: str) -> bool:
        """Return True if the group reads the topic. An unreadable consumer subscription covers every topic."""
        if self.topics is not None:
            return topic in self.topics
        return self.uses_consumer_protocol

    def read_subscriptions(self) -> None:
        self.topics = None
        if not self.uses_consumer_protocol:
            return
        topics: set[str] = set()
        try:
            for member in self.members:
                topics |= subscribed_topics(member.metadata(self.protocol_name))
        except ValueError:
            log.warning(
                "group %s: a subscription is not that of a consumer; its topics are not known", self.group_id
            )
            return
        self.topics = topics

    # Checks

    def _has_room_for(self, member_id: str) -> bool:
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            # Count rejoined members, not all members: after max.size was lowered, the last members to rejoin are
            # dropped.
            member = self.members.members.get(member_id)
            if member is not None and member.is_awaiting_join:
                return True
            return self.members.awaiting_join < self._config.max_size
        return member_id in self.members or len(self.members) < self._config.max_size

    def _supports(self, request: JoinRequest) -> bool:
        if self.state is GroupState.EMPTY or not self.members:
            return bool(request.protocol_type and request.protocols)
        return request.protocol_type == self.protocol_type and self.members.supports_any(request.protocols)

    def _check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            current = self.members.static.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _check_generation(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._check_member(member_id, group_instance_id)
        if not error and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _check_sync(self, request: SyncRequest) -> ErrorCode:
        error = self._check_generation(request.member_id, request.group_instance_id, request.generation_id)
        if error:
            return error
        if request.protocol_type is not None and request.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != self.protocol_name:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # Small steps

    def _leave_one(self, leaving: LeavingMember) -> ErrorCode:
        member_id = leaving.member_id
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not member_id:
            # Administrators remove static members by instance id alone.
            member_id = self.members.static.get(leaving.group_instance_id or "", "")
            if not member_id:
                return ErrorCode.UNKNOWN_MEMBER_ID
        elif member_id not in self.members.pending:
            error = self._check_member(member_id, leaving.group_instance_id)
            if error:
                return error
        self._remove(member_id)
        return ErrorCode.NONE

    def _remove(self, member_id: str) -> None:
        if member_id in self.members.pending:
            self._effects.append(CancelTimer(session_timer(member_id)))
        member = self.members.members.get(member_id)
        if member is not None:
            # If the client is still alive, it joins as a new member.
            self._answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            self._answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            self._effects.append(CancelTimer(session_timer(member_id)))
        self.members.remove(member_id)

    def _transition(self, state: GroupState, now_ms: int) -> None:
        self.previous_state = self.state
        self.state = state
        self.state_timestamp = now_ms

    def _keep_session(self, member: Member) -> None:
        self._effects.append(SetTimer(session_timer(member.member_id), member.session_timeout_ms))

    # Answers

    def _refuse(self, ticket: object, member_id: str, error: ErrorCode) -> None:
        self._effects.append(Answer(ticket, JoinResult(error, member_id)))

    def _answer_join(self, member: Member, result: JoinResult) -> None:
        if member.join_ticket is not None:
            self._effects.append(Answer(member.join_ticket, result))
            self.members.unpark_join(member)

    def _answer_sync(self, member: Member, result: SyncResult) -> None:
        if member.sync_ticket is not None:
            self._effects.append(Answer(member.sync_ticket, result))
            member.sync_ticket = None
            # The session could not expire while the request was parked, so its timer has to be started again.
            self._keep_session(member)

    def _join_result(self, member: Member) -> JoinResult:
        leads = member.member_id == self.members.leader
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.members.leader or "",
            members=self.members.joined(self.protocol_name) if leads else [],
        )

    def _sync_result(self, member: Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _drain(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


# Classic groups as records of `__consumer_offsets`, byte for byte as in Kafka.
#
# The coordinator reads all versions and writes key 2 with value 3, as Kafka 4.3 does. A null value is a tombstone.

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
