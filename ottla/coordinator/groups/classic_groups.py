"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup for groups of any type, and DescribeGroups.

The coordinator answers immediately unless a request appends records or waits for other members. Only then does a method
return an awaitable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.coordinator.groups.base.effects import (
    GroupState,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.classic.group_metadata import group_key, new_group_value
from ottla.coordinator.groups.group_runtime import GroupRuntime, GroupShard
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class MemberDescription:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(slots=True)
class GroupDescription:
    """A missing group has the error GROUP_ID_NOT_FOUND; versions before 6 return the state Dead instead."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: list[MemberDescription] = field(default_factory=list)


class ClassicGroups:
    """Owner: the event loop."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def join(self, group_id: str, request: JoinRequest) -> Awaitable[JoinResult]:
        runtime = self._runtime
        ticket: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        try:
            self._check_join(group_id, request)
            shard = runtime.shard_of(group_id)
            group = shard.groups.get(group_id)
            if group is not None and not group.gives_way_to_classic:
                runtime.ignore(runtime.store(shard, group, *group.join(request, ticket, runtime.clock())))
            elif request.member_id:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            else:
                self._join_new_group(shard, group_id, request, ticket)
        except KafkaError as error:
            ticket.set_result(JoinResult(error.code, request.member_id))
        return ticket

    def sync(self, group_id: str, request: SyncRequest) -> SyncResult | Awaitable[SyncResult]:
        if not group_id:
            return SyncResult(ErrorCode.INVALID_GROUP_ID)
        runtime = self._runtime
        try:
            shard = runtime.shard_of(group_id)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The old coordinator took the state of the rebalance with it, so the member has to rejoin.
                return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
            return SyncResult(error.code)
        group = shard.groups.get(group_id)
        if group is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        ticket: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        runtime.ignore(runtime.store(shard, group, *group.sync(request, ticket, runtime.clock())))
        return ticket

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        try:
            shard = self._runtime.shard_of(group_id)
        except KafkaError as failure:
            if failure.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE  # the partition is loading: keep the member
            return failure.code
        group = shard.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error, effects = group.heartbeat(member_id, group_instance_id, generation_id)
        self._runtime.run(shard, group, effects)
        return error

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        """Return one error per leaving member. Raises KafkaError if the whole request fails."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = self._runtime.shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        errors, records, effects = group.leave(leaving, self._runtime.clock())
        self._runtime.ignore(self._runtime.store(shard, group, records, effects))
        return errors

    def describe(self, group_ids: Iterable[str]) -> list[GroupDescription]:
        return [self._describe(group_id) for group_id in group_ids]

    # Internals

    def _check_join(self, group_id: str, request: JoinRequest) -> None:
        config = self._runtime.config
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if request.rebalance_timeout_ms <= 0:
            request.rebalance_timeout_ms = request.session_timeout_ms  # version 0 has no other timeout

    def _join_new_group(
        self, shard: GroupShard, group_id: str, request: JoinRequest, ticket: asyncio.Future[JoinResult]
    ) -> None:
        runtime = self._runtime
        group = runtime.new_classic_group(group_id)
        replaced = shard.groups.get(group_id)
        records: list[KeyValue] = []
        if replaced is not None:
            group.offsets = replaced.offsets
            records = replaced.tombstones()
        _, effects = group.join(request, ticket, runtime.clock())
        if not group.members and not group.members.pending:
            runtime.run(shard, group, effects)
            return
        try:
            # No response depends on this record: the next generation writes the group again.
            value = new_group_value(runtime.clock())
            runtime.ignore(runtime.append(shard, [*records, (group_key(group_id), value)]))
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID) from None
        shard.groups[group_id] = group
        runtime.run(shard, group, effects)

    def _describe(self, group_id: str) -> GroupDescription:
        try:
            _, group = self._runtime.get(group_id, ClassicGroup)
        except KafkaError as error:
            state = GroupState.DEAD.value if error.code is ErrorCode.GROUP_ID_NOT_FOUND else ""
            return GroupDescription(group_id, error.code, error.message, state)
        description = GroupDescription(
            group_id, state=group.state.value, protocol_type=group.protocol_type or ""
        )
        stable = group.state is GroupState.STABLE
        if stable:
            description.protocol_name = group.protocol_name or ""
        for member in group.members:
            description.members.append(
                MemberDescription(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(group.protocol_name) if stable else b"",
                    member.assignment,  # during a rebalance: the assignment before it
                )
            )
        return description
