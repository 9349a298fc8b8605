"""What the coordinator asks of a group, whatever its type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from ottla.coordinator.groups.effects import (
    Answer,
    Effect,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
    TimerKey,
)
from ottla.coordinator.groups.offsets.committed_offsets import GroupOffsets
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinator.groups.classic.group import ClassicGroup
    from ottla.coordinator.groups.consumer.state import Assignment
    from ottla.coordinator.share.state_records import ShareKey

# The records of a transition, and what has to happen once they are in the log.
Decision = tuple[list[KeyValue], list[Effect]]


class Group(ABC):
    """A pure state machine: time comes in as `now_ms` and `on_timer`, everything that has to happen goes out.

    A transition with records can be rolled back until they are in the log. Owned by the event loop, through its shard.
    """

    __slots__ = ("group_id", "offsets")

    group_type: ClassVar[str]
    # Is it forgotten when it is empty and its offsets have expired?
    expires: ClassVar[bool] = True

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offsets = GroupOffsets()

    # What it is

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
        """Somebody was given a member id and is about to join with it."""
        return False

    @property
    def gives_way_to_classic(self) -> bool:
        """Does the first JoinGroup replace it by a classic group?"""
        return False

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    def share_keys(self) -> list[ShareKey]:
        """The share-partitions whose state is kept for it."""
        return []

    # Expiration of its offsets

    @property
    def offsets_may_expire(self) -> bool:
        return True

    @property
    def empty_since(self) -> int | None:
        """From when retention counts; None: from each commit."""
        return None

    # JoinGroup, SyncGroup, Heartbeat and LeaveGroup; a group that knows no classic members refuses them.

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
        """May this member commit offsets, of these partitions? `knows_epochs`: the request speaks of member epochs."""

    @abstractmethod
    def check_transactional_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
    ) -> ErrorCode:
        """May offsets be committed in a transaction? Old producers name no member, and are let through."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError for a member that may not fetch offsets."""
        return

    # Events

    @abstractmethod
    def on_timer(self, key: TimerKey, now_ms: int) -> Decision: ...

    @abstractmethod
    def start_sessions(self, now_ms: int) -> list[Effect]:
        """The group was read from the log: its members have a session timeout to show up."""

    @abstractmethod
    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The group is deleted or converted, or another broker coordinates it from now on."""

    # Its records

    @abstractmethod
    def tombstones(self) -> list[KeyValue]:
        """What deletes the group, apart from its offsets."""

    def stored(self) -> None:
        """The records of the last transition are in the log."""
        return

    def rollback(self) -> None:
        """The records of the last transition could not be written: as if nothing had been asked."""
        return

    def downgrade(self, now_ms: int) -> ClassicGroup | None:
        """The classic group that takes its place, if nobody needs the new protocol any more."""
        return None
