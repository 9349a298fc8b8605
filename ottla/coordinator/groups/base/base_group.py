"""Interface between the coordinator and groups of every type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from ottla.coordinator.groups.base.committed_offsets import GroupOffsets
from ottla.coordinator.groups.base.effects import (
    Answer,
    Effect,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
    TimerKey,
)
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.groups.base.topics import Assignment
    from ottla.coordinator.share.state_records import ShareKey

# Records of a transition, and effects to execute once the records are in the log.
Decision = tuple[list[KeyValue], list[Effect]]


class Group(ABC):
    """A pure state machine: time arrives as `now_ms` and `on_timer`, and outputs leave as records and effects.

    A transition with records can be rolled back until they are in the log. Owner: the event loop, through the shard.
    """

    __slots__ = ("group_id", "offsets")

    group_type: ClassVar[str]
    # True if the coordinator forgets the group once it is empty and its offsets have expired.
    expires: ClassVar[bool] = True

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offsets = GroupOffsets()

    # Properties

    @property
    @abstractmethod
    def state(self) -> StrEnum: ...

    @property
    @abstractmethod
    def protocol_type(self) -> str | None: ...

    @property
    @abstractmethod
    def uses_consumer_protocol(self) -> bool: ...

    @property
    @abstractmethod
    def is_empty(self) -> bool: ...

    @property
    def has_pending_members(self) -> bool:
        """Return True if a client holds a fresh member id and is about to join."""
        return False

    @property
    def gives_way_to_classic(self) -> bool:
        """Return True if a first JoinGroup replaces this group by a classic group."""
        return False

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    def share_keys(self) -> list[ShareKey]:
        """Return the share-partitions with stored state for this group."""
        return []

    # Offset expiration

    @property
    def offsets_may_expire(self) -> bool:
        return True

    @property
    def empty_since(self) -> int | None:
        """Return the start of the retention time; None counts from each commit."""
        return None

    # JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Groups without classic members refuse these requests.

    def join(self, request: JoinRequest, ticket: object, now_ms: int) -> Decision:
        return [], [Answer(ticket, JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))]

    def sync(self, request: SyncRequest, ticket: object, now_ms: int) -> Decision:
        return [], [Answer(ticket, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))]

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> tuple[ErrorCode, list[Effect]]:
        return ErrorCode.UNKNOWN_MEMBER_ID, []

    def leave(
        self, leaving: Sequence[LeavingMember], now_ms: int
    ) -> tuple[list[ErrorCode], list[KeyValue], list[Effect]]:
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving), [], []

    # OffsetCommit, TxnOffsetCommit and OffsetFetch

    @abstractmethod
    def commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
        *,
        knows_epochs: bool = True,
    ) -> tuple[ErrorCode, list[Effect]]:
        """Check whether this member may commit offsets. `knows_epochs`: the request version has member epochs."""

    @abstractmethod
    def check_transactional_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
    ) -> ErrorCode:
        """Check a commit in a transaction. Old producers name no member and always pass."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if this member may not fetch offsets."""
        return

    # Events

    @abstractmethod
    def on_timer(self, key: TimerKey, now_ms: int) -> Decision: ...

    @abstractmethod
    def start_sessions(self, now_ms: int) -> list[Effect]:
        """Start a session timeout for every member after loading the group from the log."""

    @abstractmethod
    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        """Stop the group after a deletion, a conversion or a move to another coordinator."""

    # Records

    @abstractmethod
    def tombstones(self) -> list[KeyValue]:
        """Return the tombstones of the group, except those for its offsets."""

    def stored(self) -> None:
        """Confirm the last transition: its records are in the log."""
        return

    def rollback(self) -> None:
        """Undo the last transition because its records could not be written."""
        return
