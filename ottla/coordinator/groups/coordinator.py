"""The group coordinator: membership, descriptions and deletion of the groups this broker keeps.

Requests that need no append are answered at once; only those that wait for other members or for the
in-sync replicas return an awaitable. Committed offsets are in `offset_coordinator.py`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.config import GroupConfig
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.groups.effects import (
    GroupState,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from ottla.coordinator.groups.records import group_key, new_group_value, offset_key
from ottla.coordinator.groups.shards import Group, Shard, Shards
from ottla.coordinator.groups.topics import NoTopics, Topics
from ottla.coordinator.runtime.state_log import KeyValue, StateLog
from ottla.coordinator.runtime.timers import Timers
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.group_coordinator import ShareGroupCoordinator
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
    """`error` is GROUP_ID_NOT_FOUND for a group that is not there; versions before 6 say Dead instead."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: list[MemberDescription] = field(default_factory=list)


@dataclass(slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str
    group_type: str = ClassicGroup.group_type


class GroupCoordinator(ShareGroupCoordinator):
    """Owned by the event loop: no method may be called from another thread."""

    def __init__(
        self,
        config: GroupConfig,
        state_log: StateLog,
        *,
        timers: Timers | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
        topics: Topics | None = None,
    ) -> None:
        if timers is None:
            loop = asyncio.get_running_loop()
            timers = Timers(loop.time, loop.call_later)
        super().__init__(Shards(config, state_log, timers, clock, new_uuid, topics or NoTopics()))

    # Life

    def set_partition_count(self, partitions: int) -> None:
        """How many partitions `__consumer_offsets` has; the setting only counts when it is created."""
        self._shards.partition_count = partitions

    async def become_leader(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of `__consumer_offsets` from now on: read its groups."""
        await self._shards.load(partition, leader_epoch)

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        """Another broker leads it now: waiting members are sent to look for their coordinator."""
        self._shards.unload(partition, leader_epoch)

    def start(self) -> None:
        """Begin to expire offsets, every `offsets.retention.check.interval.ms`."""
        self._schedule_expiration()

    def close(self) -> None:
        self._shards.close()

    # Membership

    def join(self, group_id: str, request: JoinRequest) -> Awaitable[JoinResult]:
        ticket: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
        error = self._check_join(group_id, request)
        if error:
            ticket.set_result(JoinResult(error, request.member_id))
            return ticket
        try:
            shard = self._shards.of(group_id)
        except KafkaError as failure:
            ticket.set_result(JoinResult(failure.code, request.member_id))
            return ticket
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup):
            ticket.set_result(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        elif isinstance(group, ConsumerGroup) and not group.is_empty:
            self._join_consumer_group(shard, group, request, ticket)
        elif isinstance(group, ClassicGroup):
            self._shards.run(shard, group, group.join(request, ticket, self._shards.clock()))
        elif request.member_id:
            ticket.set_result(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        else:
            self._join_new_group(shard, group_id, request, ticket)
        return ticket

    def sync(self, group_id: str, request: SyncRequest) -> SyncResult | Awaitable[SyncResult]:
        if not group_id:
            return SyncResult(ErrorCode.INVALID_GROUP_ID)
        try:
            shard = self._shards.of(group_id)
        except KafkaError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The state of the rebalance is lost with the old coordinator: the member joins again.
                return SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
            return SyncResult(error.code)
        group = shard.groups.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(group, ConsumerGroup):
            result, effects = group.classic_sync(request)
            self._shards.run(shard, group, effects)
            return result
        ticket: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
        self._shards.run(shard, group, group.sync(request, ticket, self._shards.clock()))
        return ticket

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        try:
            shard = self._shards.of(group_id)
        except KafkaError as failure:
            if failure.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE  # nobody can tell yet, and a member must not be sent away for that
            return failure.code
        group = shard.groups.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            error, effects = group.classic_heartbeat(member_id, group_instance_id, generation_id)
        else:
            error, effects = group.heartbeat(member_id, group_instance_id, generation_id)
        self._shards.run(shard, group, effects)
        return error

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        """One error per leaving member. Raises KafkaError for what concerns the whole group."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shards.of(group_id)
        group = shard.groups.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        if isinstance(group, ConsumerGroup):
            errors, records, effects = group.classic_leave(leaving)
            pending = self._shards.store(shard, group, records, effects)
            if pending is not None:
                self._shards.in_background(self._shards.ignore_failure(pending))
            return errors
        errors, effects = group.leave(leaving, self._shards.clock())
        self._shards.run(shard, group, effects)
        return errors

    # Administration

    def describe(self, group_ids: Iterable[str]) -> list[GroupDescription]:
        return [self._describe(group_id) for group_id in group_ids]

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of this broker; empty filters let everything pass."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listings = []
        for shard in self._shards:
            if shard.loading:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            for group in shard.groups.values():
                if wanted_types and group.group_type not in wanted_types:
                    continue
                state = group.state.value
                if not wanted_states or state.lower() in wanted_states:
                    listings.append(
                        GroupListing(group.group_id, group.protocol_type or "", state, group.group_type)
                    )
        return listings

    async def delete_groups(self, group_ids: Sequence[str]) -> list[ErrorCode]:
        return [await self._delete_group(group_id) for group_id in group_ids]

    # Steps

    def _check_join(self, group_id: str, request: JoinRequest) -> ErrorCode:
        config = self._shards.config
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if request.rebalance_timeout_ms <= 0:
            request.rebalance_timeout_ms = request.session_timeout_ms  # version 0 has no other timeout
        return ErrorCode.NONE

    def _join_new_group(
        self, shard: Shard, group_id: str, request: JoinRequest, ticket: asyncio.Future[JoinResult]
    ) -> None:
        group = self._shards.new_group(group_id)
        replaced = shard.groups.get(group_id)
        records: list[KeyValue] = []
        if isinstance(replaced, ConsumerGroup):
            group.offsets = replaced.offsets
            records = self._group_tombstones(replaced)
        effects = group.join(request, ticket, self._shards.clock())
        if not group.members and not group.members.pending:
            self._shards.run(shard, group, effects)
            return
        try:
            value = new_group_value(self._shards.clock())
            pending = self._shards.append(shard, [*records, (group_key(group_id), value)])
        except KafkaError as error:
            ticket.set_result(JoinResult(error.code, ""))
            return
        except ValueError:
            ticket.set_result(JoinResult(ErrorCode.INVALID_GROUP_ID, ""))
            return
        if pending is not None:
            # Nobody depends on this record: the generation that follows writes the group again.
            self._shards.in_background(self._shards.ignore_failure(pending))
        shard.groups[group_id] = group
        self._shards.run(shard, group, effects)

    def _describe(self, group_id: str) -> GroupDescription:
        try:
            group = self._shards.of(group_id).groups.get(group_id)
        except KafkaError as error:
            return GroupDescription(group_id, error.code)
        if not isinstance(group, ClassicGroup):
            problem = "not found" if group is None else "is not a classic group"
            return GroupDescription(
                group_id,
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} {problem}.",
                GroupState.DEAD.value,
            )
        description = GroupDescription(
            group_id, state=group.state.value, protocol_type=group.protocol_type or ""
        )
        stable = group.state is GroupState.STABLE
        if stable:
            description.protocol_name = group.protocol_name or ""
        for member in group.members:
            described = MemberDescription(
                member.member_id, member.group_instance_id, member.client_id, member.client_host
            )
            described.assignment = member.assignment  # during a rebalance the one from before it
            if stable:
                described.metadata = member.metadata(group.protocol_name)
            description.members.append(described)
        return description

    async def _delete_group(self, group_id: str) -> ErrorCode:
        try:
            shard = self._shards.of(group_id)
            group = shard.groups.get(group_id)
            if group is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            if not group.is_empty:
                raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
            if isinstance(group, ShareGroup):
                await self._delete_share_state(group)
                if not self._shards.holds(shard, group) or not group.is_empty:
                    raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
            await self._write_group_tombstones(shard, group)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def _write_group_tombstones(self, shard: Shard, group: Group) -> None:
        group_id = group.group_id
        tombstones = [(offset_key(group_id, topic, p), None) for topic, p, _ in group.offsets]
        pending = self._shards.append(shard, [*tombstones, *self._group_tombstones(group)])
        # Gone at once, so that nobody joins a group that the log already calls deleted.
        del shard.groups[group_id]
        if pending is not None:
            try:
                await self._shards.committed(pending)
            except KafkaError:
                shard.groups.setdefault(group_id, group)
                raise
        self._shards.run(shard, group, group.die(ErrorCode.UNKNOWN_MEMBER_ID, self._shards.clock()))
