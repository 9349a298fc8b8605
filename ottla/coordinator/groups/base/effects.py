"""Inputs and outputs of a group's state machine: plain data.

A machine never waits and never writes. Each transition returns effects, and `GroupRuntime` executes them: it answers
parked requests, sets timers and appends records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberProtocol(NamedTuple):
    """A protocol (assignor) offered by a member; only clients interpret the metadata."""

    name: str
    metadata: bytes


@dataclass(slots=True)
class JoinRequest:
    member_id: str
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    # Version 4 and later: a dynamic member first requests an id, so that a retry does not add a second member.
    requires_known_member_id: bool = True
    # Version 9 and later (KIP-814): the response can tell a returning static leader to skip the assignment.
    supports_skipping_assignment: bool = True
    reason: str | None = None


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(slots=True)
class JoinResult:
    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: list[JoinedMember] = field(default_factory=list)

    def failed(self, error: ErrorCode) -> JoinResult:
        return JoinResult(error, self.member_id)


@dataclass(slots=True)
class SyncRequest:
    member_id: str
    generation_id: int
    assignments: dict[str, bytes] = field(default_factory=dict)
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(slots=True)
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> SyncResult:
        return SyncResult(error)


class LeavingMember(NamedTuple):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class TimerKind(Enum):
    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"
    # Consumer groups: a member takes too long to revoke partitions.
    REBALANCE = "rebalance"


class TimerKey(NamedTuple):
    """A timer of a group. A classic group has one JOIN and one SYNC timer, and one SESSION timer per member or pending
    member. In a consumer group every timer belongs to one member.
    """

    kind: TimerKind
    member_id: str = ""


JOIN_TIMER = TimerKey(TimerKind.JOIN)
SYNC_TIMER = TimerKey(TimerKind.SYNC)


def session_timer(member_id: str) -> TimerKey:
    return TimerKey(TimerKind.SESSION, member_id)


def rebalance_timer(member_id: str) -> TimerKey:
    return TimerKey(TimerKind.REBALANCE, member_id)


class Answer(NamedTuple):
    """Answer the request with this ticket. Each ticket is answered exactly once."""

    ticket: object
    result: JoinResult | SyncResult


class SetTimer(NamedTuple):
    """Call the machine's `on_timer(key)` after this delay. Replaces an earlier timer with the same key."""

    key: TimerKey
    delay_ms: int


class CancelTimer(NamedTuple):
    key: TimerKey


class StaticReplacement(NamedTuple):
    """Data to undo the return of a static member if the append fails."""

    group_instance_id: str
    old_member_id: str
    new_member_id: str
    old_protocols: tuple[MemberProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str
    supports_skipping_assignment: bool


class Persist(NamedTuple):
    """Append the current group metadata with these assignments, then call `on_persisted`."""

    generation_id: int
    assignments: dict[str, bytes]
    # Set if the leader's assignment waits for the append.
    completes_sync: bool = False
    # Set if the join of a returning static member waits for the append.
    replacement: StaticReplacement | None = None


Effect = Answer | SetTimer | CancelTimer | Persist
