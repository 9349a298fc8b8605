"""Classic members of a consumer group: their protocol, and the migration of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.groups.base.base_group import Assignment, Decision, GroupConfig, Topics
from ottla.coordinator.groups.base.effects import (
    Answer,
    CancelTimer,
    Effect,
    GroupState,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SetTimer,
    SyncRequest,
    SyncResult,
    TimerKey,
    TimerKind,
)
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.classic.members import CONSUMER_PROTOCOL_TYPE, Member
from ottla.coordinator.groups.modern.consumer_state import (
    NOTHING,
    STATIC_LEAVE_EPOCH,
    ClassicProtocols,
    ConsumerMember,
    ConsumerState,
    MemberState,
    is_within,
    partitions_of,
)
from ottla.coordinator.groups.modern.target_assignment import metadata_hash
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.codec import MalformedMessage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_groups import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionInAssignment,
)

if TYPE_CHECKING:
    from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup

# Subscriptions and assignments in the classic consumer protocol, translated to topic ids.

_NEWEST = 3


class Subscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: Assignment
    generation_id: int
    rack_id: str | None


def read_subscription(metadata: bytes, topics: Topics) -> Subscription:
    """Decode a subscription, skipping deleted topics. Raises ValueError if malformed."""
    version = _version(metadata)
    try:
        read = ConsumerProtocolSubscription.decode(metadata, version, 2)
    except MalformedMessage as error:
        raise ValueError("not a consumer's subscription") from error
    owned = {
        topic.topic_id: frozenset(part.partitions)
        for part in read.owned_partitions
        if part.partitions and (topic := topics.by_name(part.topic)) is not None
    }
    rack_id = read.rack_id or None  # librdkafka sends an empty string
    return Subscription(version, tuple(sorted(set(read.topics))), owned, read.generation_id, rack_id)


def read_assignment(data: bytes, topics: Topics) -> Assignment:
    """Decode an assignment; empty bytes are an empty assignment. Raises ValueError if malformed."""
    if not data:
        return {}
    try:
        read = ConsumerProtocolAssignment.decode(data, _version(data), 2)
    except MalformedMessage as error:
        raise ValueError("not a consumer's assignment") from error
    return {
        topic.topic_id: frozenset(part.partitions)
        for part in read.assigned_partitions
        if part.partitions and (topic := topics.by_name(part.topic)) is not None
    }


def write_assignment(assignment: Assignment, version: int, topics: Topics) -> bytes:
    parts = []
    for topic_id, partitions in assignment.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            parts.append(TopicPartitionInAssignment(topic=topic.name, partitions=sorted(partitions)))
    parts.sort(key=lambda part: part.topic)
    body = ConsumerProtocolAssignment(assigned_partitions=parts)
    return version.to_bytes(2, "big") + body.encode(version)


def _version(data: bytes) -> int:
    """Return the version to decode with.

    Later versions only append fields, so newer data decodes as the newest known version.
    """
    version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1
    if version < 0:
        raise ValueError("it has no version")
    return min(version, _NEWEST)


# Classic-protocol members of a consumer group during a migration.
#
# The broker assigns their partitions too. A JoinGroup acts as a heartbeat with a subscription, and the following
# SyncGroup fetches the assignment. A Heartbeat returns REBALANCE_IN_PROGRESS when the member should rejoin. There is no
# group leader.


class ClassicMembers:
    """Handles classic requests through the transitions of its consumer group. Owner: the group."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        # Members that the coordinator has asked to rejoin.
        self._awaited: set[str] = set()

    @property
    def are_all(self) -> bool:
        members = self._group.members.values()
        return bool(members) and all(member.classic is not None for member in members)

    def forget(self, member_id: str) -> None:
        self._awaited.discard(member_id)

    def join(self, request: JoinRequest, ticket: object, now_ms: int) -> Decision:
        try:
            result = self._join(request, now_ms)
        except KafkaError as error:
            self._group.rollback()
            return [], [Answer(ticket, JoinResult(error.code, request.member_id))]
        self._group.effects.append(Answer(ticket, result))
        return self._group.drain()

    def sync(self, request: SyncRequest, ticket: object) -> Decision:
        group = self._group
        try:
            result = self._sync(request)
        except KafkaError as error:
            result = SyncResult(error.code)
        group.effects.append(Answer(ticket, result))
        return [], group.drain_effects()

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ErrorCode, list[Effect]]:
        group = self._group
        try:
            member = self._current(member_id, instance_id, generation_id)
        except KafkaError as error:
            return error.code, []
        group.keep_session(member)
        if (
            member.epoch < group.epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not self._waits_for_others(member))
        ):
            self._expect_join(member)
            return ErrorCode.REBALANCE_IN_PROGRESS, group.drain_effects()
        return ErrorCode.NONE, group.drain_effects()

    def leave(self, leaving: Sequence[LeavingMember]) -> tuple[list[ErrorCode], list[KeyValue], list[Effect]]:
        errors = []
        for one in leaving:
            try:
                self._group.remove(self._leaving(one))
                errors.append(ErrorCode.NONE)
            except KafkaError as error:
                errors.append(error.code)
        return (errors, *self._group.drain())

    # Internals

    def _sync(self, request: SyncRequest) -> SyncResult:
        group = self._group
        member = self._current(request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        protocol = member.classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            protocol.name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # A member with partitions to revoke has already joined; its next join follows without prompting.
        if member.epoch < group.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.effects.append(CancelTimer(TimerKey(TimerKind.SYNC, member.member_id)))
        group.keep_session(member)
        version = int.from_bytes(protocol.metadata[:2], "big")
        assignment = write_assignment(partitions_of(member.assigned), min(version, 3), group.topics)
        return SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL_TYPE, protocol.name, assignment)

    def _join(self, request: JoinRequest, now_ms: int) -> JoinResult:
        group = self._group
        subscription = self._check(request)
        known = self._joining(request)
        if known is None:
            group.check_room()
            member_id = (
                request.member_id or f"{request.group_instance_id or request.client_id}-{group.new_uuid()}"
            )
            if (
                not request.member_id
                and request.group_instance_id is None
                and request.requires_known_member_id
            ):
                return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            known = ConsumerMember(member_id, request.group_instance_id)
            is_new = True
        elif not request.member_id:
            # A static member returned without its id: it gets a new id and keeps its partitions.
            member_id = f"{request.group_instance_id}-{group.new_uuid()}"
            known = group.replace_static(
                known,
                replace(known, member_id=member_id, epoch=STATIC_LEAVE_EPOCH, previous_epoch=0, revoking={}),
            )
            is_new = False
        else:
            is_new = False
        if subscription is None:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        updated = replace(
            known,
            rack_id=subscription.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            topics=subscription.topics,
            regex=None,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            server_assignor=None,
            classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
        )
        if updated != known or is_new:
            group.put(updated)
        group.refresh(
            now_ms, changed=is_new or set(updated.topics) != set(known.topics) or updated.regex != known.regex
        )
        member = group.reconcile(
            group.members[updated.member_id], _trusted(subscription, group.members[updated.member_id])
        )
        group.keep_session(member)
        self._awaited.discard(member.member_id)
        group.effects.append(CancelTimer(TimerKey(TimerKind.JOIN, member.member_id)))
        group.effects.append(
            SetTimer(TimerKey(TimerKind.SYNC, member.member_id), request.rebalance_timeout_ms)
        )
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            member.epoch,
            CONSUMER_PROTOCOL_TYPE,
            request.protocols[0].name,
        )

    def _check(self, request: JoinRequest) -> Subscription | None:
        """Return the member's subscription, or None if unreadable. Errors about the member take precedence."""
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        common = {name for name, _ in request.protocols}
        for member in self._group.members.values():
            if member.classic is not None and member.member_id != request.member_id:
                common &= {name for name, _ in member.classic.protocols}
        if not common:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        try:
            return read_subscription(request.protocols[0].metadata, self._group.topics)
        except ValueError:
            return None

    def _joining(self, request: JoinRequest) -> ConsumerMember | None:
        if request.group_instance_id is None:
            return self._group.members.get(request.member_id) if request.member_id else None
        if not request.member_id:
            current = self._group.static.get(request.group_instance_id)
            return None if current is None else self._group.members[current]
        return self._group.known_instance(request.member_id, request.group_instance_id)

    def _current(self, member_id: str, instance_id: str | None, generation_id: int) -> ConsumerMember:
        member = (
            self._group.members.get(member_id)
            if instance_id is None
            else self._group.known_instance(member_id, instance_id)
        )
        if member is None or member.classic is None:
            self._group.no_member(member_id)
        if generation_id != member.epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def _leaving(self, leaving: LeavingMember) -> ConsumerMember:
        if leaving.group_instance_id is None:
            member = self._group.members.get(leaving.member_id)
            if member is None or member.classic is None:
                self._group.no_member(leaving.member_id)
            return member
        # Administrators remove static members by instance id alone.
        member_id = leaving.member_id or self._group.static.get(leaving.group_instance_id, "")
        return self._group.known_instance(member_id, leaving.group_instance_id)

    def _waits_for_others(self, member: ConsumerMember) -> bool:
        target = self._group.state_now.targets.get(member.member_id, NOTHING)
        return any(
            partition not in member.assigned.get(topic_id, {})
            and not self._group.is_free(topic_id, partition)
            for topic_id, partitions in target.items()
            for partition in partitions
        )

    def _expect_join(self, member: ConsumerMember) -> None:
        # Later heartbeats repeat the error but must not extend the deadline.
        if member.member_id not in self._awaited:
            self._awaited.add(member.member_id)
            self._group.effects.append(
                SetTimer(TimerKey(TimerKind.JOIN, member.member_id), member.rebalance_timeout_ms)
            )


def _trusted(subscription: Subscription, member: ConsumerMember) -> Assignment:
    """Return the partitions that a member claims to own.

    A claim counts if it names the current epoch or stays within the assignment.
    """
    if subscription.generation_id == member.epoch or is_within(subscription.owned, member.assigned):
        return subscription.owned
    return NOTHING


# Online migration between the classic and the consumer protocol.
#
# A classic group becomes a consumer group when the first new-protocol member joins, and turns back when the last one
# leaves. Members, assignments and committed offsets survive.


def to_consumer(classic: ClassicGroup, config: GroupConfig, topics: Topics) -> ConsumerState:
    """Convert a classic group; its generation becomes the group epoch. Raises KafkaError."""
    problem = _why_not(classic, config)
    state = ConsumerState(epoch=classic.generation_id, target_epoch=classic.generation_id)
    if problem is None:
        try:
            for member in classic.members:
                state.members[member.member_id] = _to_consumer_member(classic, member, topics)
        except ValueError:
            problem = "the embedded consumer protocol is malformed"
    if problem is not None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {classic.group_id} to consumer group because {problem}.",
        )
    for member_id, converted in state.members.items():
        state.targets[member_id] = {t: frozenset(held) for t, held in converted.assigned.items()}
    names = {name for converted in state.members.values() for name in converted.topics}
    state.metadata_hash = metadata_hash(t for t in map(topics.by_name, names) if t is not None)
    return state


def to_classic(group: ConsumerGroup, now_ms: int) -> ClassicGroup:
    """Convert a consumer group to the classic protocol; its members have to rejoin."""
    classic = ClassicGroup(group.group_id, group.config, group.new_uuid, now_ms)
    classic.offsets = group.offsets
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    classic.generation_id = group.epoch
    for member in group.members.values():
        assert member.classic is not None
        version = min(int.from_bytes(member.classic.protocols[0].metadata[:2], "big"), 3)
        target = group.state_now.targets.get(member.member_id, NOTHING)
        classic.members.add(
            Member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                member.classic.protocols,
                write_assignment(target, version, group.topics),
            )
        )
    classic.protocol_name = classic.members.select_protocol()
    classic.state = classic.previous_state = GroupState.STABLE
    classic.read_subscriptions()
    return classic


def _why_not(classic: ClassicGroup, config: GroupConfig) -> str | None:
    if not config.consumer_upgrade:
        return "online upgrade is disabled"
    if not classic.uses_consumer_protocol:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > config.consumer_max_size:
        return "the group exceeds the consumer group maximum size"
    return None


def _to_consumer_member(classic: ClassicGroup, member: Member, topics: Topics) -> ConsumerMember:
    # A group chooses a protocol only with its first generation.
    name = classic.protocol_name or member.protocols[0].name
    subscription = read_subscription(member.metadata(name), topics)
    epoch = classic.generation_id
    assigned = {
        topic_id: dict.fromkeys(partitions, epoch)
        for topic_id, partitions in read_assignment(member.assignment, topics).items()
    }
    return ConsumerMember(
        member.member_id,
        member.group_instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=assigned,
    )
