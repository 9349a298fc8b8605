"""Share groups of KIP-932: heartbeats, descriptions, and where they begin to read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Protocol

from ottla.coordinator.groups.consumer.state import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.group_runtime import GroupRuntime, GroupShard
from ottla.coordinator.groups.share.group import ShareGroup
from ottla.coordinator.groups.subscribing_group import (
    HeartbeatRequest,
    HeartbeatResult,
    ModernGroupDescription,
)
from ottla.coordinator.runtime.coordinator_runtime import when_stored
from ottla.coordinator.share.state_records import UNINITIALIZED, ShareKey
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class Persister(Protocol):
    """The share coordinators, wherever they are. Raises KafkaError if one of several fails."""

    async def initialize(self, state_epoch: int, starts: Mapping[ShareKey, int]) -> None: ...

    async def delete(self, keys: Iterable[ShareKey]) -> None: ...


class ShareGroups:
    """Owner: the event loop."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime
        # Set when the broker is put together: it asks share coordinators, which may be at other brokers.
        self.persister: Persister | None = None
        self._initializing: dict[str, asyncio.Task[None]] = {}

    def heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        """Raises KafkaError, or the awaitable does."""
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
        """Initialize the state of partitions that are new to the group. A later heartbeat tries again what failed."""
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
        """Raises KafkaError(GROUP_ID_NOT_FOUND) for what is no share group."""
        return self._runtime.get(group_id, ShareGroup)[1]

    async def alter_offsets(
        self, group_id: str, topic_id: bytes, name: str, starts: Mapping[int, int]
    ) -> None:
        """Let the group start again at these offsets, by partition; creates the group if need be. Raises KafkaError."""
        group = self.check_empty(group_id, may_be_missing=True)
        # A new epoch: a leader that still knows the state from before is fenced.
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

    # Steps

    @property
    def _states(self) -> Persister:
        if self.persister is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.persister

    async def delete_state(self, group: Group) -> None:
        """Before the group itself is deleted."""
        await self._states.delete(group.share_keys())
