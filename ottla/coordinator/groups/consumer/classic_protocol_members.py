"""Members of a consumer group that still speak the classic protocol, while a group is being migrated.

The broker assigns for them too: a JoinGroup is a heartbeat that tells the subscription, the SyncGroup that follows
fetches the assignment, and a Heartbeat says REBALANCE_IN_PROGRESS when they should join again. Nobody leads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ottla.coordinator.groups.classic.members import CONSUMER_PROTOCOL_TYPE
from ottla.coordinator.groups.consumer.classic_protocol import (
    Subscription,
    read_subscription,
    write_assignment,
)
from ottla.coordinator.groups.consumer.group_core import ConsumerGroupCore
from ottla.coordinator.groups.consumer.state import (
    NOTHING,
    Assignment,
    ClassicProtocols,
    ConsumerMember,
    MemberState,
    is_within,
    partitions_of,
)
from ottla.coordinator.groups.effects import (
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
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError


class ClassicMembers(ConsumerGroupCore):
    @property
    def are_all_classic(self) -> bool:
        """Then nobody needs the new protocol any more."""
        return bool(self.members) and all(member.classic is not None for member in self.members.values())

    def classic_join(
        self, request: JoinRequest, now_ms: int, new_uuid: Callable[[], str]
    ) -> tuple[JoinResult, list[KeyValue], list[Effect]]:
        try:
            result = self._classic_join(request, now_ms, new_uuid)
        except KafkaError as error:
            self.rollback()
            return JoinResult(error.code, request.member_id), [], []
        return (result, *self._drain())

    def classic_sync(self, request: SyncRequest) -> tuple[SyncResult, list[Effect]]:
        try:
            member = self._classic_member(request.member_id, request.group_instance_id, request.generation_id)
            assert member.classic is not None
            name = member.classic.protocols[0].name
            if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
                None,
                name,
            ):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            # Who still has to give up partitions has joined already: the next join follows by itself.
            if member.epoch < self.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._expect_join(member)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            return SyncResult(error.code), self._drain()[1]
        self._effects.append(CancelTimer(TimerKey(TimerKind.SYNC, member.member_id)))
        self._keep_session(member)
        version = int.from_bytes(member.classic.protocols[0].metadata[:2], "big")
        assignment = write_assignment(partitions_of(member.assigned), min(version, 3), self._topics)
        return SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL_TYPE, name, assignment), self._drain()[1]

    def classic_heartbeat(
        self, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ErrorCode, list[Effect]]:
        try:
            member = self._classic_member(member_id, instance_id, generation_id)
        except KafkaError as error:
            return error.code, []
        self._keep_session(member)
        if (
            member.epoch < self.epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not self._waits_for_others(member))
        ):
            self._expect_join(member)
            return ErrorCode.REBALANCE_IN_PROGRESS, self._drain()[1]
        return ErrorCode.NONE, self._drain()[1]

    def classic_leave(
        self, leaving: Sequence[LeavingMember]
    ) -> tuple[list[ErrorCode], list[KeyValue], list[Effect]]:
        errors = []
        for one in leaving:
            try:
                self._remove(self._leaving(one))
                errors.append(ErrorCode.NONE)
            except KafkaError as error:
                errors.append(error.code)
        return (errors, *self._drain())

    # Steps

    def _classic_join(self, request: JoinRequest, now_ms: int, new_uuid: Callable[[], str]) -> JoinResult:
        subscription = self._check_classic(request)
        known = self._joining(request)
        if known is None:
            self._check_room()
            member_id = request.member_id or f"{request.group_instance_id or request.client_id}-{new_uuid()}"
            if (
                not request.member_id
                and request.group_instance_id is None
                and request.requires_known_member_id
            ):
                return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            known = ConsumerMember(member_id, request.group_instance_id)
            is_new = True
        elif not request.member_id:
            known = self._replaced(known, f"{request.group_instance_id}-{new_uuid()}")
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
            self._put(updated)
        self._refresh(
            now_ms, changed=is_new or set(updated.topics) != set(known.topics) or updated.regex != known.regex
        )
        member = self._reconcile(
            self.members[updated.member_id], _trusted(subscription, self.members[updated.member_id])
        )
        self._keep_session(member)
        self._awaited.discard(member.member_id)
        self._effects.append(CancelTimer(TimerKey(TimerKind.JOIN, member.member_id)))
        self._effects.append(
            SetTimer(TimerKey(TimerKind.SYNC, member.member_id), request.rebalance_timeout_ms)
        )
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            member.epoch,
            CONSUMER_PROTOCOL_TYPE,
            request.protocols[0].name,
        )

    def _check_classic(self, request: JoinRequest) -> Subscription | None:
        """Its subscription; None if it cannot be read, which only matters once the member is known."""
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        common = {name for name, _ in request.protocols}
        for member in self.members.values():
            if member.classic is not None and member.member_id != request.member_id:
                common &= {name for name, _ in member.classic.protocols}
        if not common:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        try:
            return read_subscription(request.protocols[0].metadata, self._topics)
        except ValueError:
            return None

    def _joining(self, request: JoinRequest) -> ConsumerMember | None:
        if request.group_instance_id is None:
            return self.members.get(request.member_id) if request.member_id else None
        if not request.member_id:
            current = self._static.get(request.group_instance_id)
            return None if current is None else self.members[current]
        return self._known_instance(request.member_id, request.group_instance_id)

    def _replaced(self, member: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member came back without its id: it gets a new one and keeps what it had."""
        state = self._change()
        target = state.targets.get(member.member_id, NOTHING)
        self._drop(member)
        replacement = replace(member, member_id=member_id, epoch=-2, previous_epoch=0, revoking={})
        state.targets[member_id] = target
        self._put(replacement)
        return replacement

    def _classic_member(self, member_id: str, instance_id: str | None, generation_id: int) -> ConsumerMember:
        member = (
            self.members.get(member_id)
            if instance_id is None
            else self._known_instance(member_id, instance_id)
        )
        if member is None or member.classic is None:
            self._no_member(member_id)
        if generation_id != member.epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def _leaving(self, leaving: LeavingMember) -> ConsumerMember:
        if leaving.group_instance_id is None:
            member = self.members.get(leaving.member_id)
            if member is None or member.classic is None:
                self._no_member(leaving.member_id)
            return member
        # An administrator removes a static member and knows only its instance id.
        member_id = leaving.member_id or self._static.get(leaving.group_instance_id, "")
        return self._known_instance(member_id, leaving.group_instance_id)

    def _waits_for_others(self, member: ConsumerMember) -> bool:
        target = self.state_now.targets.get(member.member_id, NOTHING)
        return any(
            partition not in member.assigned.get(topic_id, {}) and not self._is_free(topic_id, partition)
            for topic_id, partitions in target.items()
            for partition in partitions
        )

    def _expect_join(self, member: ConsumerMember) -> None:
        # Each further heartbeat says the same and must not buy time.
        if member.member_id not in self._awaited:
            self._awaited.add(member.member_id)
            self._effects.append(
                SetTimer(TimerKey(TimerKind.JOIN, member.member_id), member.rebalance_timeout_ms)
            )


def _trusted(subscription: Subscription, member: ConsumerMember) -> Assignment:
    """What a member says it owns counts if it speaks of its current epoch, or owns no more than it was given."""
    if subscription.generation_id == member.epoch or is_within(subscription.owned, member.assigned):
        return subscription.owned
    return NOTHING
