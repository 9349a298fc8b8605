"""Common base of consumer groups (KIP-848) and share groups (KIP-932).

Members subscribe to topics, and the broker assigns the partitions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.coordinator.groups.base.base_group import Assignment, NamedPartitions, named_partitions
from ottla.coordinator.groups.modern.consumer_state import NOTHING, ConsumerMember, ConsumerState
from ottla.coordinator.groups.modern.modern_group import ModernGroup
from ottla.coordinator.groups.modern.target_assignment import (
    Subscriber,
    compute_target_assignment,
    metadata_hash,
)
from ottla.protocol.errors import ErrorCode

State = TypeVar("State", bound=ConsumerState)


@dataclass(slots=True)
class HeartbeatRequest:
    """A heartbeat. None marks an unchanged field omitted by the member."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    # Return True if the member may see a topic; None means no restriction. Patterns match visible topics only.
    sees: Callable[[str], bool] | None = None

    @property
    def is_full(self) -> bool:
        """Return True for a full heartbeat, sent when a member joins or has missed a response."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.topics is not None or self.regex is not None)
            and self.owned is not None
        )


@dataclass(slots=True)
class HeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(slots=True)
class ModernGroupDescription:
    """Description of a group; each member includes its current assignment, unrevoked partitions and target."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: list[tuple[ConsumerMember, NamedPartitions, NamedPartitions]] = field(default_factory=list)


class SubscribingGroup(ModernGroup[State, ConsumerMember]):
    """Invariants: see `ModernGroup`."""

    @property
    @abstractmethod
    def assignor(self) -> str: ...

    def subscribed_topics(self, member: ConsumerMember) -> set[str]:
        return set(member.topics)

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.subscribed_topics(member) for member in self.members.values())

    def describe(self) -> ModernGroupDescription:
        now = self.state_now
        members = [
            (
                member,
                named_partitions(self.topics, member.assigned, member.revoking),
                named_partitions(self.topics, now.targets.get(member.member_id, NOTHING)),
            )
            for member in self.members.values()
        ]
        return ModernGroupDescription(
            self.group_id,
            state=self.state.value,
            epoch=now.epoch,
            assignment_epoch=now.target_epoch,
            assignor=self.assignor,
            members=members,
        )

    def session_timeout_ms(self, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return super().session_timeout_ms(member)

    # Target assignment

    def topics_changed(self, now_ms: int) -> None:
        """Hook for `refresh`, called after subscriptions or topics have changed."""

    def refresh(self, now_ms: int, *, changed: bool) -> None:
        """Start a new epoch if the subscriptions or the subscribed topics have changed."""
        if changed or self._topics_version != self.topics.version:
            self._topics_version = self.topics.version
            self.topics_changed(now_ms)
            names = set[str]().union(*(self.subscribed_topics(m) for m in self.members.values()))
            found = metadata_hash(t for t in map(self.topics.by_name, names) if t is not None)
            if found != self.state_now.metadata_hash:
                self.change().metadata_hash = found
                changed = True
        if changed:
            self.bump_epoch()
        state = self.state_now
        if state.target_epoch < state.epoch and self.is_assignment_due(now_ms):
            self._assign(now_ms)

    def _assign(self, now_ms: int) -> None:
        state = self.change()
        targets = compute_target_assignment(state, self.topics, self.subscribed_topics, self.assign)
        for member_id, target in targets.items():
            if state.targets.get(member_id) != target:
                state.targets[member_id] = target
        state.target_epoch = state.epoch
        state.target_timestamp_ms = now_ms

    @abstractmethod
    def assign(
        self, subscribers: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
    ) -> dict[str, Assignment]:
        """Return a target assignment for every member."""
