"""What all transitions of a consumer group share: its state, what follows from it, and the way to change it."""

from __future__ import annotations

import logging
from collections import Counter
from typing import NoReturn

from ottla.coordinator.groups.config import GroupConfig, Pace
from ottla.coordinator.groups.consumer.assignors import ASSIGNORS, Subscriber
from ottla.coordinator.groups.consumer.metadata_hash import metadata_hash
from ottla.coordinator.groups.consumer.reconciliation import reconcile
from ottla.coordinator.groups.consumer.records import difference
from ottla.coordinator.groups.consumer.state import (
    FIRST_EPOCH,
    NOTHING,
    Assignment,
    ConsumerGroupState,
    ConsumerMember,
    ConsumerState,
    MemberState,
    ResolvedRegex,
)
from ottla.coordinator.groups.consumer.topic_regex import topic_regex
from ottla.coordinator.groups.effects import (
    CancelTimer,
    Effect,
    SetTimer,
    TimerKey,
    TimerKind,
    rebalance_timer,
    session_timer,
)
from ottla.coordinator.groups.offsets.offsets import GroupOffsets
from ottla.coordinator.groups.topics import Topics
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class ConsumerGroupCore:
    """Invariants: no partition is held by two members; the target epoch never passes the group epoch, a member epoch
    never passes the target epoch. Owned by the event loop, through its shard.
    """

    group_type = "consumer"
    protocol_type = "consumer"
    uses_consumer_protocol = True
    has_pending_members = False

    def __init__(self, group_id: str, config: GroupConfig, topics: Topics) -> None:
        self.group_id = group_id
        self.offsets = GroupOffsets()
        self.state_now = ConsumerState(epoch=FIRST_EPOCH)
        self.dead = False
        self._config = config
        self._max_size = config.consumer_max_size
        self._topics = topics
        self._static: dict[str, str] = {}
        self._owners: dict[tuple[bytes, int], str] = {}
        self._looked_at: int | None = None
        self._before: ConsumerState | None = None
        # What is in the log: the state that the next records start from.
        self._is_stored = False
        self._effects: list[Effect] = []
        # Members of the classic protocol that have been told to join again.
        self._awaited: set[str] = set()

    # What the group is

    @property
    def members(self) -> dict[str, ConsumerMember]:
        return self.state_now.members

    @property
    def epoch(self) -> int:
        return self.state_now.epoch

    @property
    def state(self) -> ConsumerGroupState:
        now = self.state_now
        if self.dead:
            return ConsumerGroupState.DEAD
        if not now.members:
            return ConsumerGroupState.EMPTY
        if now.epoch > now.target_epoch:
            return ConsumerGroupState.ASSIGNING
        for member in now.members.values():
            if member.state is not MemberState.STABLE or member.epoch != now.target_epoch:
                return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def subscribed_topics(self, member: ConsumerMember) -> set[str]:
        topics = set(member.topics)
        if member.regex is not None and member.regex in self.state_now.regexes:
            topics |= self.state_now.regexes[member.regex].topics
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.subscribed_topics(member) for member in self.members.values())

    @property
    def assignor(self) -> str:
        """The one that most members ask for; the first of `group.consumer.assignors` where none does."""
        votes = Counter(m.server_assignor for m in self.members.values() if m.server_assignor is not None)
        return votes.most_common(1)[0][0] if votes else self._config.consumer_assignors[0]

    @property
    def _pace(self) -> Pace:
        return self._config.pace_of(self.group_type, self.group_id)

    # As in classic groups

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def offsets_may_expire(self) -> bool:
        return True

    @property
    def empty_since(self) -> int | None:
        return None  # the records do not tell: the time of the commit counts

    # Changing it

    def load(self, state: ConsumerState) -> None:
        """The group as its records tell it."""
        self.state_now = state
        self._is_stored = True
        self._look_around()

    def adopt(self, state: ConsumerState) -> None:
        """A group that was classic until now: all of it is still to be written."""
        self.state_now = state
        self._look_around()

    def stored(self) -> None:
        """What was handed out as records is in the log."""
        self._before = None
        self._is_stored = True

    def rollback(self) -> None:
        """It could not be written: as if nothing had been asked."""
        self._effects = []
        if self._before is not None:
            self.state_now = self._before
            self._before = None
            self._look_around()
            self._looked_at = None

    def _look_around(self) -> None:
        self._static = {
            m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None
        }
        self._owners = {}
        for member in self.members.values():
            self._own(member)

    def _own(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    self._owners[topic_id, partition] = member.member_id

    def _change(self) -> ConsumerState:
        if self._before is None:
            self._before = self.state_now.copy()
        return self.state_now

    def _put(self, member: ConsumerMember) -> None:
        state = self._change()
        old = state.members.get(member.member_id)
        if old is not None and (old.assigned is not member.assigned or old.revoking is not member.revoking):
            self._disown(old)
        state.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self._own(member)

    def _drop(self, member: ConsumerMember) -> None:
        state = self._change()
        self._disown(member)
        del state.members[member.member_id]
        state.targets.pop(member.member_id, None)
        if member.instance_id is not None and self._static.get(member.instance_id) == member.member_id:
            del self._static[member.instance_id]
        self._awaited.discard(member.member_id)
        for kind in TimerKind:
            self._effects.append(CancelTimer(TimerKey(kind, member.member_id)))

    def _disown(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    if self._owners.get((topic_id, partition)) == member.member_id:
                        del self._owners[topic_id, partition]

    def _is_free(self, topic_id: bytes, partition: int) -> bool:
        return (topic_id, partition) not in self._owners

    def _drain(self) -> tuple[list[KeyValue], list[Effect]]:
        effects, self._effects = self._effects, []
        if self._before is None and self._is_stored:
            return [], effects
        before = (self._before if self._is_stored else None) or ConsumerState()
        return self._difference(before), effects

    def _difference(self, before: ConsumerState) -> list[KeyValue]:
        return difference(self.group_id, before, self.state_now)

    # Events

    def on_timer(self, key: TimerKey, now_ms: int) -> tuple[list[KeyValue], list[Effect]]:
        member = self.members.get(key.member_id)
        if member is not None and self._is_overdue(member, key.kind):
            log.info("group %s: %s is gone (%s timeout)", self.group_id, member.member_id, key.kind.value)
            self._remove(member)
        return self._drain()

    def start_sessions(self, now_ms: int) -> list[Effect]:
        """The group was read from the log: its members have a session timeout to show up."""
        for member in self.members.values():
            self._keep_session(member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._effects.append(SetTimer(rebalance_timer(member.member_id), member.rebalance_timeout_ms))
        effects, self._effects = self._effects, []
        return effects

    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The group is deleted, converted, or another broker coordinates it from now on."""
        self.dead = True
        return [CancelTimer(TimerKey(kind, member_id)) for member_id in self.members for kind in TimerKind]

    def _is_overdue(self, member: ConsumerMember, kind: TimerKind) -> bool:
        return kind is TimerKind.SESSION

    # Towards a new target

    def _bump(self) -> None:
        self._change().epoch += 1

    def _resolve(self, now_ms: int) -> None:
        """Match the patterns against the topics that there are now, and forget those nobody uses."""
        wanted = {member.regex for member in self.members.values() if member.regex}
        state = self.state_now
        for regex in state.regexes.keys() - wanted:
            del self._change().regexes[regex]
        for regex in wanted:
            found = topic_regex(regex).matching(self._topics.names())
            known = state.regexes.get(regex)
            if known is None or known.topics != found:
                resolved = ResolvedRegex(found, self._topics.version, now_ms)
                self._change().regexes[regex] = resolved

    def _refresh(self, now_ms: int, *, changed: bool) -> None:
        """Start a new epoch if the subscriptions have changed, or the topics that they name."""
        if changed or self._looked_at != self._topics.version:
            self._looked_at = self._topics.version
            self._resolve(now_ms)
            names = set[str]().union(*(self.subscribed_topics(m) for m in self.members.values()))
            found = metadata_hash(t for t in map(self._topics.by_name, names) if t is not None)
            if found != self.state_now.metadata_hash:
                self._change().metadata_hash = found
                changed = True
        if changed:
            self._bump()
        state = self.state_now
        since = now_ms - state.target_timestamp_ms
        if state.target_epoch < state.epoch and not 0 <= since < self._pace.assignment_interval_ms:
            self._assign(now_ms)

    def _assign(self, now_ms: int) -> None:
        state = self._change()
        counts: dict[bytes, int] = {}
        subscribers: dict[str, Subscriber] = {}
        for member_id, member in state.members.items():
            ids = set()
            for name in self.subscribed_topics(member):
                topic = self._topics.by_name(name)
                if topic is not None:
                    ids.add(topic.topic_id)
                    counts[topic.topic_id] = topic.partitions
            target = state.targets.get(member_id, NOTHING)
            subscribers[member_id] = Subscriber(frozenset(ids), target, member.instance_id)
        targets = self._run_assignor(subscribers, counts)
        for member_id, target in targets.items():
            if state.targets.get(member_id) != target:
                state.targets[member_id] = target
        state.target_epoch = state.epoch
        state.target_timestamp_ms = now_ms

    def _run_assignor(
        self, subscribers: dict[str, Subscriber], counts: dict[bytes, int]
    ) -> dict[str, Assignment]:
        return ASSIGNORS[self.assignor](subscribers, counts)

    def _reconcile(self, member: ConsumerMember, owned: Assignment | None) -> ConsumerMember:
        state = self.state_now
        target = state.targets.get(member.member_id, NOTHING)
        updated = reconcile(member, state.target_epoch, target, self._is_free, owned)
        if updated is not member and updated.current() != member.current():
            self._put(updated)
            key = rebalance_timer(member.member_id)
            if updated.state is MemberState.UNREVOKED_PARTITIONS:
                self._effects.append(SetTimer(key, updated.rebalance_timeout_ms))
            else:
                self._effects.append(CancelTimer(key))
            return updated
        return member

    def _keep_session(self, member: ConsumerMember) -> None:
        timeout = self._pace.session_timeout_ms
        if member.classic is not None:
            timeout = member.classic.session_timeout_ms
        self._effects.append(SetTimer(session_timer(member.member_id), timeout))

    # Errors in Kafka's words

    def _no_member(self, member_id: str) -> NoReturn:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
        )

    def _check_room(self) -> None:
        if len(self.members) >= self._max_size:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The {self.group_type} group has reached its maximum capacity of {self._max_size} members.",
            )

    def _remove(self, member: ConsumerMember) -> None:
        self._drop(member)
        regex = member.regex
        if regex and not any(other.regex == regex for other in self.members.values()):
            self._change().regexes.pop(regex, None)
        self._looked_at = None  # what is subscribed to may have become less
        self._bump()

    def _known_instance(self, member_id: str, instance_id: str) -> ConsumerMember:
        current = self._static.get(instance_id)
        if current is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if current != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {current}.",
            )
        return self.members[current]
