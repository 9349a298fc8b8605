"""What goes into a group's state machine and what comes out of it: plain data.

A machine never waits and never writes. Each transition hands back effects; `GroupRuntime` carries them out: it
answers the parked requests, keeps the timers and appends the records.
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
    """A protocol (an assignor) that a member offers; the metadata belongs to the clients alone."""

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
    # Versions 4 and up: a dynamic member first asks for its id, so that a retry is not a second member.
    requires_known_member_id: bool = True
    # Versions 9 and up (KIP-814): a returning static leader may be told to assign nothing.
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
    # Of a consumer group: a member takes too long to give partitions up.
    REBALANCE = "rebalance"


class TimerKey(NamedTuple):
    """One timer of a group. In a classic one JOIN and SYNC exist once, SESSION once per member or pending member;
    in a consumer group every timer is one member's.
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
    """Answer the request that came with this ticket. Each ticket is answered exactly once."""

    ticket: object
    result: JoinResult | SyncResult


class SetTimer(NamedTuple):
    """Call the machine's `on_timer(key)` after this delay; replaces an earlier setting of the same key."""

    key: TimerKey
    delay_ms: int


class CancelTimer(NamedTuple):
    key: TimerKey


class StaticReplacement(NamedTuple):
    """How to undo the return of a static member if it cannot be persisted."""

    group_instance_id: str
    old_member_id: str
    new_member_id: str
    old_protocols: tuple[MemberProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str
    supports_skipping_assignment: bool


class Persist(NamedTuple):
    """Append the group's metadata as it stands now, with these assignments, then call `on_persisted`."""

    generation_id: int
    assignments: dict[str, bytes]
    # Set when the leader's assignment waits for the append.
    completes_sync: bool = False
    # Set when the join of a returning static member waits for the append.
    replacement: StaticReplacement | None = None


Effect = Answer | SetTimer | CancelTimer | Persist
