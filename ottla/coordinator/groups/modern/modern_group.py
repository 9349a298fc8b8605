"""Common base of consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071): the broker assigns,
members heartbeat.

    group epoch      grows with every change of members, subscriptions or topics
    target epoch     follows with a new target assignment for all members
    member epoch     follows when a member has reached its target

A transition produces records: the difference between the states before and after. Until the runtime confirms the append
(`stored`), the transition can be undone (`rollback`).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

from ottla.coordinator.groups.base.base_group import Assignment, Decision, Group, GroupConfig, Pace, Topics
from ottla.coordinator.groups.base.effects import (
    CancelTimer,
    Effect,
    SetTimer,
    TimerKey,
    TimerKind,
    session_timer,
)
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class ModernMember(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...


class ModernState(Protocol):
    """State of a group as stored in its records. Dict values are replaced, never modified in place."""

    epoch: int
    members: dict[str, Any]
    targets: dict[str, Any]
    target_epoch: int
    target_timestamp_ms: int

    def copy(self) -> Self: ...


State = TypeVar("State", bound=ModernState)
M = TypeVar("M", bound=ModernMember)


class ModernGroup(Group, Generic[State, M]):
    """Invariant: the target epoch never exceeds the group epoch, and no member epoch exceeds the target epoch."""

    def __init__(
        self, group_id: str, state: State, config: GroupConfig, max_size: int, topics: Topics
    ) -> None:
        super().__init__(group_id)
        self.state_now = state
        self.dead = False
        self.topics = topics
        self.effects: list[Effect] = []
        self.config = config
        self._max_size = max_size
        self._topics_version: int | None = None  # version of the topics at the last check
        self._before: State | None = None
        # True if the log holds the group as of before this transition.
        self._is_stored = False

    # Properties

    @property
    def members(self) -> dict[str, M]:
        members: dict[str, M] = self.state_now.members
        return members

    @property
    def epoch(self) -> int:
        return self.state_now.epoch

    @property
    @abstractmethod
    def state(self) -> StrEnum: ...

    @property
    def protocol_type(self) -> str:
        return self.group_type

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def pace(self) -> Pace:
        return self.config.pace_of(self.group_type, self.group_id)

    # Changes

    def load(self, state: State) -> None:
        self.state_now = state
        self._is_stored = True
        self.state_replaced()

    def adopt(self, state: State) -> None:
        """Take over the state of a classic group. None of it is in the log yet."""
        self.state_now = state
        self.state_replaced()

    def stored(self) -> None:
        self._before = None
        self._is_stored = True

    def rollback(self) -> None:
        self.effects = []
        if self._before is not None:
            self.state_now = self._before
            self._before = None
            self.state_replaced()
            self._topics_version = None

    def state_replaced(self) -> None:
        """Recompute all data derived from the state."""

    @property
    def has_changed(self) -> bool:
        return self._before is not None

    def change(self) -> State:
        """Return the state for modification in this transition, saving a copy on first use."""
        if self._before is None:
            self._before = self.state_now.copy()
        return self.state_now

    def put(self, member: M) -> None:
        self.change().members[member.member_id] = member

    def drop(self, member: M) -> None:
        state = self.change()
        del state.members[member.member_id]
        state.targets.pop(member.member_id, None)
        for kind in TimerKind:
            self.effects.append(CancelTimer(TimerKey(kind, member.member_id)))

    def remove(self, member: M) -> None:
        self.drop(member)
        self._topics_version = None  # the group may subscribe to fewer topics now
        self.bump_epoch()

    def bump_epoch(self) -> None:
        self.change().epoch += 1

    def drain_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def drain(self) -> Decision:
        effects = self.drain_effects()
        if self._before is None and self._is_stored:
            return [], effects
        return self.difference(self._before if self._is_stored else None), effects

    @abstractmethod
    def difference(self, before: State | None) -> list[KeyValue]:
        """Return the records that turn `before` into the current state; None means an empty log."""

    # Events

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision:
        member = self.members.get(key.member_id)
        if member is not None and self.is_overdue(member, key.kind):
            log.info("group %s: %s is gone (%s timeout)", self.group_id, member.member_id, key.kind.value)
            self.remove(member)
        return self.drain()

    def is_overdue(self, member: M, kind: TimerKind) -> bool:
        return kind is TimerKind.SESSION

    def start_sessions(self, now_ms: int) -> list[Effect]:
        for member in self.members.values():
            self.keep_session(member)
        return self.drain_effects()

    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        self.dead = True
        return [CancelTimer(TimerKey(kind, member_id)) for member_id in self.members for kind in TimerKind]

    def keep_session(self, member: M) -> None:
        self.effects.append(SetTimer(session_timer(member.member_id), self.session_timeout_ms(member)))

    def session_timeout_ms(self, member: M) -> int:
        return self.pace.session_timeout_ms

    def is_assignment_due(self, now_ms: int) -> bool:
        """Return True if `assignment.interval.ms` has passed since the last target assignment."""
        return not 0 <= now_ms - self.state_now.target_timestamp_ms < self.pace.assignment_interval_ms

    # Offsets

    def check_transactional_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
    ) -> ErrorCode:
        """Check a commit in a transaction by the rules of plain commits. Requests without a member always pass."""
        if generation_id < 0 and not member_id and group_instance_id is None:
            return ErrorCode.NONE
        error, _ = self.commit(member_id, group_instance_id, generation_id, partitions)
        # TxnOffsetCommit is older than member epochs.
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error

    # Errors in Kafka's words

    def no_member(self, member_id: str) -> NoReturn:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
        )

    def wrong_epoch(self, member: M, epoch: int) -> NoReturn:
        word = "greater" if epoch > member.epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The {self.group_type} group member has a {word} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )

    def check_room(self) -> None:
        if len(self.members) >= self._max_size:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.group_type} group has reached its maximum capacity of {self._max_size} members.",
            )
