"""The consumer group of KIP-848: the broker assigns partitions and members reconcile by heartbeat.

A member epoch advances to the target epoch once the member has revoked all partitions outside its target.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ottla.coordinator.groups.base.base_group import Assignment, Decision, GroupConfig, Topics
from ottla.coordinator.groups.base.effects import (
    CancelTimer,
    Effect,
    JoinRequest,
    LeavingMember,
    SetTimer,
    SyncRequest,
    TimerKind,
    rebalance_timer,
)
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.consumer.classic_members import ClassicMembers, to_classic
from ottla.coordinator.groups.consumer.consumer_records import difference, tombstones
from ottla.coordinator.groups.consumer.reconciliation import TopicRegex, reconcile
from ottla.coordinator.groups.modern.consumer_state import (
    FIRST_EPOCH,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupState,
    ConsumerMember,
    ConsumerState,
    MemberState,
    ResolvedRegex,
    is_within,
    partitions_of,
)
from ottla.coordinator.groups.modern.subscribing_group import (
    HeartbeatRequest,
    HeartbeatResult,
    SubscribingGroup,
)
from ottla.coordinator.groups.modern.target_assignment import ASSIGNORS, Subscriber
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError


class ConsumerGroup(SubscribingGroup[ConsumerState]):
    """Invariants: see `ModernGroup`; no two members hold the same partition."""

    group_type = "consumer"
    uses_consumer_protocol = True

    def __init__(
        self,
        group_id: str,
        config: GroupConfig,
        topics: Topics,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        super().__init__(group_id, ConsumerState(epoch=FIRST_EPOCH), config, config.consumer_max_size, topics)
        self.new_uuid = new_uuid
        self.static: dict[str, str] = {}
        self._owners: dict[tuple[bytes, int], str] = {}
        # Topic visibility by pattern, from the last member that sent the pattern. Not stored, since every heartbeat
        # sets it.
        self._sees: dict[str, Callable[[str], bool]] = {}
        self._classic_members = ClassicMembers(self)

    # Properties

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

    @property
    def assignor(self) -> str:
        """Return the assignor with the most votes, by default the first of `group.consumer.assignors`."""
        votes = Counter(m.server_assignor for m in self.members.values() if m.server_assignor is not None)
        return votes.most_common(1)[0][0] if votes else self.config.consumer_assignors[0]

    @property
    def gives_way_to_classic(self) -> bool:
        return self.is_empty

    def subscribed_topics(self, member: ConsumerMember) -> set[str]:
        topics = set(member.topics)
        if member.regex is not None and member.regex in self.state_now.regexes:
            topics |= self.state_now.regexes[member.regex].topics
        return topics

    # ConsumerGroupHeartbeat

    def consumer_heartbeat(
        self, request: HeartbeatRequest, now_ms: int
    ) -> tuple[HeartbeatResult, list[KeyValue], list[Effect]]:
        """Handle a heartbeat. Raises KafkaError without changing the group."""
        try:
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                result = self._leave(request)
            else:
                result = self._join_or_stay(request, now_ms)
        except KafkaError:
            self.rollback()
            raise
        return (result, *self.drain())

    # Members of the classic protocol

    def join(self, request: JoinRequest, ticket: object, now_ms: int) -> Decision:
        return self._classic_members.join(request, ticket, now_ms)

    def sync(self, request: SyncRequest, ticket: object, now_ms: int) -> Decision:
        return self._classic_members.sync(request, ticket)

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> tuple[ErrorCode, list[Effect]]:
        return self._classic_members.heartbeat(member_id, group_instance_id, generation_id)

    def leave(
        self, leaving: Sequence[LeavingMember], now_ms: int
    ) -> tuple[list[ErrorCode], list[KeyValue], list[Effect]]:
        return self._classic_members.leave(leaving)

    def downgrade(self, now_ms: int) -> ClassicGroup | None:
        if not self.config.consumer_downgrade or not self._classic_members.are_all:
            return None
        return to_classic(self, now_ms)

    # Offsets

    def commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        partitions: Callable[[], Assignment] | None = None,
        *,
        knows_epochs: bool = True,
    ) -> tuple[ErrorCode, list[Effect]]:
        try:
            self.check_commit(member_id, generation_id, partitions, knows_epochs=knows_epochs)
        except KafkaError as error:
            return error.code, []
        return ErrorCode.NONE, []

    def check_commit(
        self,
        member_id: str,
        epoch: int,
        partitions: Callable[[], Assignment] | None,
        *,
        knows_epochs: bool,
    ) -> None:
        """Raise KafkaError if this member may not commit offsets for `partitions`."""
        if epoch < 0 and not self.members:
            return  # an admin client, or a consumer with manually assigned partitions
        member = self.members.get(member_id)
        if member is None:
            self.no_member(member_id)
        if member.classic is not None:
            if epoch != member.epoch:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return
        if not knows_epochs:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        # A commit may be in flight when the epoch grows. Partitions that the member held throughout are still its own.
        if epoch == member.epoch:
            return
        if partitions is not None and 0 <= epoch < member.epoch and _held_since(member, partitions(), epoch):
            return
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.members.get(member_id or "")
        if member is None:
            self.no_member(member_id or "")
        if member_epoch != member.epoch:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH
            )

    # Internals

    def _join_or_stay(self, request: HeartbeatRequest, now_ms: int) -> HeartbeatResult:
        known = self._member_of(request)
        member = known or ConsumerMember(request.member_id)
        updated = self._subscribe(member, request)
        changed = (
            known is None
            or set(updated.topics) != set(member.topics)
            or (updated.regex or None) != (member.regex or None)
        )
        if updated is not member or known is None:
            self.put(updated)
        if updated.regex and request.sees is not None:
            self._sees[updated.regex] = request.sees
        self.refresh(now_ms, changed=changed)
        reconciled = self.reconcile(self.members[updated.member_id], request.owned)
        self.keep_session(reconciled)
        result = HeartbeatResult(reconciled.member_id, reconciled.epoch, self.pace.heartbeat_interval_ms)
        if (
            request.member_epoch == JOIN_EPOCH
            or request.is_full
            or (
                reconciled.assigned is not member.assigned
                and partitions_of(reconciled.assigned) != partitions_of(member.assigned)
            )
        ):
            result.assignment = partitions_of(reconciled.assigned)
        return result

    def _member_of(self, request: HeartbeatRequest) -> ConsumerMember | None:
        if request.instance_id is not None:
            return self._static_member(request, request.instance_id)
        member = self.members.get(request.member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                self.no_member(request.member_id)
            self.check_room()
            return None
        self._check_epoch(member, request)
        return member

    def _static_member(self, request: HeartbeatRequest, instance_id: str) -> ConsumerMember | None:
        current = self.static.get(instance_id)
        if request.member_epoch != JOIN_EPOCH:
            member = self.known_instance(request.member_id, instance_id)
            self._check_epoch(member, request)
            return member
        if current is None:
            self.check_room()
            return None
        member = self.members[current]
        if current == request.member_id:
            if member.epoch == STATIC_LEAVE_EPOCH:
                return self._returned(member, current)
            self._check_epoch(member, request)
            return member
        if member.epoch != STATIC_LEAVE_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {instance_id} cannot join the group because "
                f"the instance id is owned by {current} member.",
            )
        return self._returned(member, request.member_id)

    def _returned(self, member: ConsumerMember, member_id: str) -> ConsumerMember:
        return self.replace_static(
            member, replace(member, member_id=member_id, previous_epoch=0, classic=None)
        )

    def _check_epoch(self, member: ConsumerMember, request: HeartbeatRequest) -> None:
        epoch = request.member_epoch
        if epoch in (member.epoch, JOIN_EPOCH):
            return
        if epoch < member.epoch:
            # The member may have missed the response with its new epoch.
            missed = epoch == member.previous_epoch and request.owned is not None
            if missed and is_within(request.owned or NOTHING, member.assigned):
                return
        self.wrong_epoch(member, epoch)

    def _subscribe(self, member: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
        regex = member.regex if request.regex is None else request.regex or None
        if regex is not None and regex != member.regex:
            TopicRegex(regex)  # raises for an invalid pattern
        updated = replace(
            member,
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=(
                member.rebalance_timeout_ms
                if request.rebalance_timeout_ms == -1
                else request.rebalance_timeout_ms
            ),
            server_assignor=(
                member.server_assignor if request.server_assignor is None else request.server_assignor
            ),
            topics=member.topics if request.topics is None else tuple(request.topics),
            regex=regex,
            client_id=request.client_id,
            client_host=request.client_host,
            classic=None,
        )
        return member if updated == member else updated

    def _leave(self, request: HeartbeatRequest) -> HeartbeatResult:
        if request.instance_id is None:
            member = self.members.get(request.member_id)
            if member is None:
                self.no_member(request.member_id)
            self.remove(member)
        else:
            member = self.known_instance(request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                # Other members receive no partitions of this member until its session expires.
                self.put(replace(member, epoch=STATIC_LEAVE_EPOCH, revoking={}))
            else:
                self.remove(member)
        return HeartbeatResult(request.member_id, request.member_epoch)

    # Changes

    def state_replaced(self) -> None:
        self.static = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        self._owners = {}
        for member in self.members.values():
            self._own(member)

    def put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None and (old.assigned is not member.assigned or old.revoking is not member.revoking):
            self._disown(old)
        super().put(member)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self._own(member)

    def drop(self, member: ConsumerMember) -> None:
        self._disown(member)
        super().drop(member)
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]
        self._classic_members.forget(member.member_id)

    def remove(self, member: ConsumerMember) -> None:
        super().remove(member)
        regex = member.regex
        if regex and not any(other.regex == regex for other in self.members.values()):
            self.change().regexes.pop(regex, None)

    def replace_static(self, member: ConsumerMember, back: ConsumerMember) -> ConsumerMember:
        """Replace a returning static member, possibly under a new id; it keeps its partitions and its target."""
        state = self.change()
        target = state.targets.get(member.member_id, NOTHING)
        self.drop(member)
        state.targets[back.member_id] = target
        self.put(back)
        return back

    def difference(self, before: ConsumerState | None) -> list[KeyValue]:
        return difference(self.group_id, before or ConsumerState(), self.state_now)

    def tombstones(self) -> list[KeyValue]:
        return tombstones(self.group_id, self.state_now)

    def _own(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    self._owners[topic_id, partition] = member.member_id

    def _disown(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    if self._owners.get((topic_id, partition)) == member.member_id:
                        del self._owners[topic_id, partition]

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        return (topic_id, partition) not in self._owners

    def known_instance(self, member_id: str, instance_id: str) -> ConsumerMember:
        current = self.static.get(instance_id)
        if current is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if current != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {current}.",
            )
        return self.members[current]

    # Target assignment

    def topics_changed(self, now_ms: int) -> None:
        """Match the patterns against the current topics and drop unused patterns."""
        wanted = {member.regex for member in self.members.values() if member.regex}
        state = self.state_now
        for regex in state.regexes.keys() - wanted:
            del self.change().regexes[regex]
            self._sees.pop(regex, None)
        for regex in wanted:
            found = TopicRegex(regex).matching(self.topics.names())
            if (sees := self._sees.get(regex)) is not None:
                found = frozenset(filter(sees, found))
            known = state.regexes.get(regex)
            if known is None or known.topics != found:
                resolved = ResolvedRegex(found, self.topics.version, now_ms)
                self.change().regexes[regex] = resolved

    def assign(
        self, subscribers: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
    ) -> dict[str, Assignment]:
        return ASSIGNORS[self.assignor](subscribers, partition_counts)

    def reconcile(self, member: ConsumerMember, owned: Assignment | None) -> ConsumerMember:
        state = self.state_now
        target = state.targets.get(member.member_id, NOTHING)
        updated = reconcile(member, state.target_epoch, target, self.is_free, owned)
        if updated is member or updated.current() == member.current():
            return member
        self.put(updated)
        key = rebalance_timer(member.member_id)
        if updated.state is MemberState.UNREVOKED_PARTITIONS:
            self.effects.append(SetTimer(key, updated.rebalance_timeout_ms))
        else:
            self.effects.append(CancelTimer(key))
        return updated

    def start_sessions(self, now_ms: int) -> list[Effect]:
        for member in self.members.values():
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.effects.append(SetTimer(rebalance_timer(member.member_id), member.rebalance_timeout_ms))
        return super().start_sessions(now_ms)

    def is_overdue(self, member: ConsumerMember, kind: TimerKind) -> bool:
        if kind is TimerKind.REBALANCE:
            return member.state is MemberState.UNREVOKED_PARTITIONS
        return kind is TimerKind.SESSION or member.classic is not None


def _held_since(member: ConsumerMember, partitions: Assignment, epoch: int) -> bool:
    nothing: dict[int, int] = {}
    return all(
        member.assigned.get(topic_id, nothing).get(partition, epoch + 1) <= epoch
        for topic_id, wanted in partitions.items()
        for partition in wanted
    )
