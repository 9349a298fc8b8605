"""Classic-protocol members of a consumer group during a migration.

The broker assigns their partitions too. A JoinGroup acts as a heartbeat with a subscription, and the following
SyncGroup fetches the assignment. A Heartbeat returns REBALANCE_IN_PROGRESS when the member should rejoin. There is no
group leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.groups.base.base_group import Decision
from ottla.coordinator.groups.base.effects import (
    Answer,
    CancelTimer,
    Effect,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SetTimer,
    SyncRequest,
    SyncResult,
    TimerKey,
    TimerKind,
)
from ottla.coordinator.groups.base.topics import Assignment
from ottla.coordinator.groups.classic.members import CONSUMER_PROTOCOL_TYPE
from ottla.coordinator.groups.consumer.classic_protocol import (
    Subscription,
    read_subscription,
    write_assignment,
)
from ottla.coordinator.groups.modern.consumer_state import (
    NOTHING,
    STATIC_LEAVE_EPOCH,
    ClassicProtocols,
    ConsumerMember,
    MemberState,
    is_within,
    partitions_of,
)
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup


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
