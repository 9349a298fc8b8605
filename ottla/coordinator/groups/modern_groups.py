"""Requests to consumer groups, share groups and streams groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from ottla.coordinator.groups.base.base_group import Group
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.consumer.classic_members import to_consumer
from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.groups.group_runtime import GroupRuntime, GroupShard
from ottla.coordinator.groups.modern.consumer_state import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.groups.modern.subscribing_group import (
    HeartbeatRequest,
    HeartbeatResult,
    ModernGroupDescription,
)
from ottla.coordinator.groups.share_group import ShareGroup
from ottla.coordinator.groups.streams.streams_group import StreamsGroup
from ottla.coordinator.groups.streams.streams_state import (
    StreamsGroupDescription,
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
)
from ottla.coordinator.runtime import when_stored
from ottla.coordinator.share.share_coordinator import UNINITIALIZED, ShareKey
from ottla.protocol.errors import ErrorCode, KafkaError

# Consumer groups (KIP-848): heartbeats, descriptions, and the upgrade of classic groups.


class ConsumerGroups:
    """Owner: the event loop."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    @property
    def assignors(self) -> tuple[str, ...]:
        return self._runtime.config.consumer_assignors

    def heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        """Handle a heartbeat. This call or the awaitable raises KafkaError."""
        runtime = self._runtime
        shard = runtime.shard_of(group_id)
        known = shard.groups.get(group_id)
        if isinstance(known, ConsumerGroup):
            result, records, effects = known.consumer_heartbeat(request, runtime.clock())
            return when_stored(runtime.store(shard, known, records, effects), result)
        group = self._new(group_id, known, request.member_epoch)
        result, records, effects = group.consumer_heartbeat(request, runtime.clock())
        if known is None:
            return when_stored(runtime.store(shard, group, records, effects), result)
        # Append first: until then the old group stays in place.
        pending = runtime.append(shard, [*known.tombstones(), *records])
        group.stored()
        self._replace(shard, known, group)
        runtime.run(shard, group, effects)
        return when_stored(pending, result)

    def describe(self, group_ids: Iterable[str]) -> Iterator[ModernGroupDescription]:
        return self._runtime.describe(group_ids, ConsumerGroup)

    # Internals

    def _new(self, group_id: str, known: Group | None, member_epoch: int) -> ConsumerGroup:
        """Create the group on the first heartbeat, replacing a classic group of the same name."""
        runtime = self._runtime
        if known is None and member_epoch != JOIN_EPOCH:
            kind = "Group" if member_epoch <= LEAVE_EPOCH else "Consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        group = runtime.new_consumer_group(group_id)
        if known is None:
            return group
        if not isinstance(known, ClassicGroup) or member_epoch != JOIN_EPOCH:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if not known.is_empty:
            group.adopt(to_consumer(known, runtime.config, runtime.topics))
        group.offsets = known.offsets
        return group

    def _replace(self, shard: GroupShard, classic: Group, group: ConsumerGroup) -> None:
        runtime = self._runtime
        shard.groups[group.group_id] = group
        runtime.run(shard, classic, classic.die(ErrorCode.REBALANCE_IN_PROGRESS, runtime.clock()))
        runtime.run(shard, group, group.start_sessions(runtime.clock()))


# Share groups (KIP-932): heartbeats, descriptions and start offsets.

log = logging.getLogger(__name__)


class Persister(Protocol):
    """Access to the share coordinators of all brokers. Raises KafkaError if any of several calls fails."""

    async def initialize(self, state_epoch: int, starts: Mapping[ShareKey, int]) -> None: ...

    async def delete(self, keys: Iterable[ShareKey]) -> None: ...


class ShareGroups:
    """Owner: the event loop."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        # Set during broker start-up. Calls share coordinators, possibly on other brokers.
        self.persister: Persister | None = None
        self._initializing: dict[str, asyncio.Task[None]] = {}

    def heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        """Handle a heartbeat. This call or the awaitable raises KafkaError."""
        shard, group = self._for_heartbeat(group_id, request)
        result, records, effects = group.share_heartbeat(request, self._runtime.clock())
        answer = when_stored(self._runtime.store(shard, group, records, effects), result)
        if group_id not in self._initializing and group.uninitialized():
            task = asyncio.get_running_loop().create_task(self._initialize(group_id))
            self._initializing[group_id] = task
            task.add_done_callback(lambda _: self._initializing.pop(group_id, None))
        return answer

    def close(self) -> None:
        for task in self._initializing.values():
            task.cancel()

    async def _initialize(self, group_id: str) -> None:
        """Initialize the state of partitions new to the group. After a failure a later heartbeat retries."""
        try:
            group = self.get(group_id)
            while found := group.uninitialized():
                keys = [ShareKey(group_id, topic_id, partition) for topic_id, partition in found]
                await self._states.initialize(group.epoch, dict.fromkeys(keys, UNINITIALIZED))
                shard, group = self._runtime.get(group_id, ShareGroup)
                pending = self._runtime.store(shard, group, *group.add_initialized(found))
                if pending is not None:
                    await pending
        except KafkaError as error:
            log.info("Cannot initialize the state of share group %s yet: %s", group_id, error)

    def _for_heartbeat(self, group_id: str, request: HeartbeatRequest) -> tuple[GroupShard, ShareGroup]:
        shard, group = self._found_or_new(group_id)
        if group_id not in shard.groups and request.member_epoch != JOIN_EPOCH:
            kind = "Group" if request.member_epoch <= LEAVE_EPOCH else "Share group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        return shard, group

    def describe(self, group_ids: Iterable[str]) -> Iterator[ModernGroupDescription]:
        return self._runtime.describe(group_ids, ShareGroup)

    def get(self, group_id: str) -> ShareGroup:
        """Raises KafkaError(GROUP_ID_NOT_FOUND) if no share group has this id."""
        return self._runtime.get(group_id, ShareGroup)[1]

    async def alter_offsets(
        self, group_id: str, topic_id: bytes, name: str, starts: Mapping[int, int]
    ) -> None:
        """Reset the group to these start offsets, by partition. Creates the group if necessary. Raises KafkaError."""
        group = self.check_empty(group_id, may_be_missing=True)
        # The new epoch fences leaders that still have the old state.
        await self._states.initialize(
            group.epoch + 1, {ShareKey(group_id, topic_id, index): start for index, start in starts.items()}
        )
        await self._set_initialized(group_id, topic_id, name, frozenset(starts))

    async def delete_offsets(self, group_id: str, topic_id: bytes, name: str) -> None:
        group = self.check_empty(group_id)
        if topic_id not in group.state_now.initialized:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
            )
        await self._states.delete([key for key in group.share_keys() if key.topic_id == topic_id])
        await self._set_initialized(group_id, topic_id, name, frozenset())

    async def _set_initialized(
        self, group_id: str, topic_id: bytes, name: str, partitions: frozenset[int]
    ) -> None:
        shard, group = self._found_or_new(group_id)
        pending = self._runtime.store(shard, group, *group.set_initialized(topic_id, name, partitions))
        if pending is not None:
            await pending

    def _found_or_new(self, group_id: str) -> tuple[GroupShard, ShareGroup]:
        shard = self._runtime.shard_of(group_id)
        if group_id in shard.groups:
            return self._runtime.get(group_id, ShareGroup)
        return shard, self._runtime.new_share_group(group_id)

    def check_empty(self, group_id: str, *, may_be_missing: bool = False) -> ShareGroup:
        group = self._found_or_new(group_id)[1] if may_be_missing else self.get(group_id)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        return group

    # Internals

    @property
    def _states(self) -> Persister:
        if self.persister is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.persister

    async def delete_state(self, group: Group) -> None:
        await self._states.delete(group.share_keys())


# Streams groups (KIP-1071): heartbeats and descriptions.
#
# An empty classic group can become a streams group and keeps its offsets.


class StreamsGroups:
    """Owner: the event loop."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def heartbeat(
        self, group_id: str, request: StreamsHeartbeatRequest
    ) -> StreamsHeartbeatResult | Awaitable[StreamsHeartbeatResult]:
        """Handle a heartbeat. This call or the awaitable raises KafkaError."""
        runtime = self._runtime
        shard = runtime.shard_of(group_id)
        known = shard.groups.get(group_id)
        if known is None and request.member_epoch != JOIN_EPOCH:
            kind = "Group" if request.member_epoch <= LEAVE_EPOCH else "Streams group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        replaced = None
        if known is None:
            group = runtime.new_streams_group(group_id)
        elif isinstance(known, ClassicGroup) and known.is_empty and request.member_epoch == JOIN_EPOCH:
            group, replaced = runtime.new_streams_group(group_id), known
            group.offsets = known.offsets
        else:
            group = runtime.get(group_id, StreamsGroup)[1]
        result, records, effects = group.streams_heartbeat(request, runtime.clock())
        if replaced is None:
            return when_stored(runtime.store(shard, group, records, effects), result)
        # Append first: until then the old group stays in place.
        pending = runtime.append(shard, [*replaced.tombstones(), *records])
        group.stored()
        shard.groups[group_id] = group
        runtime.run(shard, replaced, replaced.die(ErrorCode.REBALANCE_IN_PROGRESS, runtime.clock()))
        runtime.run(shard, group, effects)
        return when_stored(pending, result)

    def asks_for_description(self, group_id: str, topology_epoch: int) -> bool:
        group = self._runtime.get(group_id, StreamsGroup)[1]
        return topology_epoch >= 0 and group.description.asks(topology_epoch, self._runtime.clock())

    def describe_topology(self, group_id: str, member_id: str, topology_epoch: int, description: Any) -> None:
        self._runtime.get(group_id, StreamsGroup)[1].describe_topology(member_id, topology_epoch, description)

    def describe(self, group_ids: Iterable[str]) -> Iterator[StreamsGroupDescription]:
        for group_id in group_ids:
            try:
                yield self._runtime.get(group_id, StreamsGroup)[1].describe()
            except KafkaError as error:
                yield StreamsGroupDescription(group_id, error.code, error.message)
