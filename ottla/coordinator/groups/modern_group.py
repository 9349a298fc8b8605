"""What consumer groups (KIP-848) and share groups (KIP-932) have in common: the broker assigns, members heartbeat.

    group epoch      grows when members, subscriptions or the subscribed topics change
    target epoch     follows with a new target assignment for all members
    member epoch     follows when a member has come to its target

What has to be written comes out as records: the difference between the state before and after. Until the driver says
that they are written (`stored`) everything can be taken back (`rollback`).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from ottla.coordinator.groups.config import GroupConfig, Pace
from ottla.coordinator.groups.consumer.assignors import Subscriber
from ottla.coordinator.groups.consumer.metadata_hash import metadata_hash
from ottla.coordinator.groups.consumer.state import (
    NOTHING,
    Assignment,
    ConsumerGroupState,
    ConsumerMember,
    ConsumerState,
)
from ottla.coordinator.groups.effects import (
    CancelTimer,
    Effect,
    SetTimer,
    TimerKey,
    TimerKind,
    session_timer,
)
from ottla.coordinator.groups.group import Decision, Group
from ottla.coordinator.groups.topics import NamedPartitions, Topics, named_partitions
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

State = TypeVar("State", bound=ConsumerState)


@dataclass(slots=True)
class HeartbeatRequest:
    """None is a field that the member omitted because it has not changed."""

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

    @property
    def is_full(self) -> bool:
        """Members say everything when they join and when they have missed an answer."""
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
    """Members with what each holds or still has to give up, and with what it is meant to hold."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: list[tuple[ConsumerMember, NamedPartitions, NamedPartitions]] = field(default_factory=list)


class ModernGroup(Group, Generic[State]):
    """Invariant: the target epoch never passes the group epoch, a member epoch never passes the target epoch."""

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
        self._topics_version: int | None = None  # of the topics when they were last looked at
        self._before: State | None = None
        # Is it in the log, as it was before this transition?
        self._is_stored = False

    # What the group is

    @property
    def members(self) -> dict[str, ConsumerMember]:
        return self.state_now.members

    @property
    def epoch(self) -> int:
        return self.state_now.epoch

    @property
    @abstractmethod
    def state(self) -> ConsumerGroupState: ...

    @property
    @abstractmethod
    def assignor(self) -> str: ...

    @property
    def protocol_type(self) -> str:
        return self.group_type

    @property
    def is_empty(self) -> bool:
        return not self.members

    def subscribed_topics(self, member: ConsumerMember) -> set[str]:
        return set(member.topics)

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.subscribed_topics(member) for member in self.members.values())

    @property
    def pace(self) -> Pace:
        return self.config.pace_of(self.group_type, self.group_id)

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

    # Changing it

    def load(self, state: State) -> None:
        """The group as its records tell it."""
        self.state_now = state
        self._is_stored = True
        self.state_replaced()

    def adopt(self, state: State) -> None:
        """A group that was classic until now: all of it is still to be written."""
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
        """Derive anew what follows from the state."""

    @property
    def has_changed(self) -> bool:
        return self._before is not None

    def change(self) -> State:
        """The state, to be changed in this transition."""
        if self._before is None:
            self._before = self.state_now.copy()
        return self.state_now

    def put(self, member: ConsumerMember) -> None:
        self.change().members[member.member_id] = member

    def drop(self, member: ConsumerMember) -> None:
        state = self.change()
        del state.members[member.member_id]
        state.targets.pop(member.member_id, None)
        for kind in TimerKind:
            self.effects.append(CancelTimer(TimerKey(kind, member.member_id)))

    def remove(self, member: ConsumerMember) -> None:
        """The member is gone for good: others get what it had."""
        self.drop(member)
        self._topics_version = None  # what is subscribed to may have become less
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
        """The records that lead from one state to the current one; None: from no state at all."""

    # Events

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision:
        member = self.members.get(key.member_id)
        if member is not None and self.is_overdue(member, key.kind):
            log.info("group %s: %s is gone (%s timeout)", self.group_id, member.member_id, key.kind.value)
            self.remove(member)
        return self.drain()

    def is_overdue(self, member: ConsumerMember, kind: TimerKind) -> bool:
        return kind is TimerKind.SESSION

    def start_sessions(self, now_ms: int) -> list[Effect]:
        for member in self.members.values():
            self.keep_session(member)
        return self.drain_effects()

    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        self.dead = True
        return [CancelTimer(TimerKey(kind, member_id)) for member_id in self.members for kind in TimerKind]

    def keep_session(self, member: ConsumerMember) -> None:
        timeout = self.pace.session_timeout_ms
        if member.classic is not None:
            timeout = member.classic.session_timeout_ms
        self.effects.append(SetTimer(session_timer(member.member_id), timeout))

    # Towards a new target

    def topics_changed(self, now_ms: int) -> None:
        """Subscriptions or topics have changed, in `refresh`."""

    def refresh(self, now_ms: int, *, changed: bool) -> None:
        """Start a new epoch if the subscriptions have changed, or the topics that they name."""
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
        since = now_ms - state.target_timestamp_ms
        if state.target_epoch < state.epoch and not 0 <= since < self.pace.assignment_interval_ms:
            self._assign(now_ms)

    def _assign(self, now_ms: int) -> None:
        state = self.change()
        counts: dict[bytes, int] = {}
        subscribers: dict[str, Subscriber] = {}
        for member_id, member in state.members.items():
            ids = set()
            for name in self.subscribed_topics(member):
                topic = self.topics.by_name(name)
                if topic is not None:
                    ids.add(topic.topic_id)
                    counts[topic.topic_id] = topic.partitions
            target = state.targets.get(member_id, NOTHING)
            subscribers[member_id] = Subscriber(frozenset(ids), target, member.instance_id)
        for member_id, target in self.assign(subscribers, counts).items():
            if state.targets.get(member_id) != target:
                state.targets[member_id] = target
        state.target_epoch = state.epoch
        state.target_timestamp_ms = now_ms

    @abstractmethod
    def assign(
        self, subscribers: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
    ) -> dict[str, Assignment]:
        """A target for every member."""

    # Errors in Kafka's words

    def no_member(self, member_id: str) -> NoReturn:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
        )

    def wrong_epoch(self, member: ConsumerMember, epoch: int) -> NoReturn:
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
