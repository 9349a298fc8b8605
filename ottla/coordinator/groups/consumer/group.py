"""The consumer group of KIP-848: a pure state machine. The broker assigns, members reconcile by heartbeat.

    group epoch      grows when members, subscriptions or the subscribed topics change
    target epoch     follows with a new target assignment for all members
    member epoch     follows when a member has given up what it shall not keep

Time comes in as `now_ms` and `on_timer`. What has to be written comes out as records; until the driver says that
they are written (`stored`) everything can be taken back (`rollback`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.coordinator.groups.consumer.classic_protocol_members import ClassicMembers
from ottla.coordinator.groups.consumer.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    Assignment,
    ConsumerMember,
    MemberState,
    is_within,
    partitions_of,
)
from ottla.coordinator.groups.consumer.topic_regex import topic_regex
from ottla.coordinator.groups.effects import Effect, TimerKind
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class HeartbeatRequest:
    """None is a field that the member left out because it has not changed."""

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


class ConsumerGroup(ClassicMembers):
    """The requests and events of members that speak the new protocol."""

    def heartbeat(
        self, request: HeartbeatRequest, now_ms: int
    ) -> tuple[HeartbeatResult, list[KeyValue], list[Effect]]:
        """Raises KafkaError, with nothing changed."""
        try:
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                result = self._leave(request)
            else:
                result = self._join_or_stay(request, now_ms)
        except KafkaError:
            self.rollback()
            raise
        return (result, *self._drain())

    # Offsets

    def check_commit(
        self,
        member_id: str,
        epoch: int,
        partitions: Callable[[], Assignment] | None,
        *,
        knows_epochs: bool,
    ) -> None:
        """May this member commit? `partitions` are those it commits for."""
        if epoch < 0 and not self.members:
            return  # an admin client, or a consumer that assigns partitions to itself
        member = self.members.get(member_id)
        if member is None:
            self._no_member(member_id)
        if member.classic is not None:
            if epoch != member.epoch:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return
        if not knows_epochs:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        # A commit may have been under way when the epoch grew: what the member held all the time is still its own.
        if epoch == member.epoch:
            return
        if partitions is not None and 0 <= epoch < member.epoch and _held_since(member, partitions(), epoch):
            return
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.members.get(member_id or "")
        if member is None:
            self._no_member(member_id or "")
        if epoch != member.epoch:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH
            )

    def check_transactional_commit(
        self, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """May offsets be committed in a transaction? Only in the current epoch; who names no member is let through."""
        if generation_id < 0 and not member_id and group_instance_id is None:
            return ErrorCode.NONE
        try:
            self.check_commit(member_id, generation_id, None, knows_epochs=True)
        except KafkaError as error:
            # The API is older than epochs.
            stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
            return ErrorCode.ILLEGAL_GENERATION if stale else error.code
        return ErrorCode.NONE

    # Steps

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
            self._put(updated)
        self._refresh(now_ms, changed=changed)
        reconciled = self._reconcile(self.members[updated.member_id], request.owned)
        self._keep_session(reconciled)
        result = HeartbeatResult(reconciled.member_id, reconciled.epoch, self._pace.heartbeat_interval_ms)
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
        """The member that speaks; None for one that is new."""
        if request.instance_id is not None:
            return self._static_member(request, request.instance_id)
        member = self.members.get(request.member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                self._no_member(request.member_id)
            self._check_room()
            return None
        self._check_epoch(member, request)
        return member

    def _static_member(self, request: HeartbeatRequest, instance_id: str) -> ConsumerMember | None:
        current = self._static.get(instance_id)
        if request.member_epoch != JOIN_EPOCH:
            member = self._known_instance(request.member_id, instance_id)
            self._check_epoch(member, request)
            return member
        if current is None:
            self._check_room()
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
        """A static member is back, under whatever id: what it held and what it was meant to have are its own."""
        state = self._change()
        target = state.targets.get(member.member_id, NOTHING)
        self._drop(member)
        back = replace(member, member_id=member_id, previous_epoch=0, classic=None)
        state.targets[member_id] = target
        self._put(back)
        return back

    def _check_epoch(self, member: ConsumerMember, request: HeartbeatRequest) -> None:
        epoch = request.member_epoch
        if epoch in (member.epoch, JOIN_EPOCH):
            return
        if epoch < member.epoch:
            # The answer that told it of its new epoch may have been lost.
            missed = epoch == member.previous_epoch and request.owned is not None
            if missed and is_within(request.owned or NOTHING, member.assigned):
                return
        word = "greater" if epoch > member.epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {word} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )

    def _subscribe(self, member: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
        regex = member.regex if request.regex is None else request.regex or None
        if regex is not None and regex != member.regex:
            topic_regex(regex)
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
                self._no_member(request.member_id)
            self._remove(member)
        else:
            member = self._known_instance(request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                # Until its session is over, nothing of it goes to others.
                self._put(replace(member, epoch=STATIC_LEAVE_EPOCH, revoking={}))
            else:
                self._remove(member)
        return HeartbeatResult(request.member_id, request.member_epoch)

    def _is_overdue(self, member: ConsumerMember, kind: TimerKind) -> bool:
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
