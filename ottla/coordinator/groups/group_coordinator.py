"""The group coordinator: groups and offsets in the `__consumer_offsets` partitions led by this broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ottla.coordinator.groups.base.base_group import Group, GroupConfig, NoTopics, Topics
from ottla.coordinator.groups.base.committed_offsets import offset_key
from ottla.coordinator.groups.classic_groups import ClassicGroups
from ottla.coordinator.groups.group_runtime import GroupRuntime, GroupShard
from ottla.coordinator.groups.modern_groups import ConsumerGroups, ShareGroups, StreamsGroups
from ottla.coordinator.groups.offsets import Offsets
from ottla.coordinator.runtime import StateLog, Timers
from ottla.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupCoordinator:
    """Entry point for group requests. One component per kind of request; this class handles requests common to all
    group types. Owner: the event loop.
    """

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
        self.runtime = GroupRuntime(config, state_log, timers, clock, new_uuid, topics or NoTopics())
        self.classic = ClassicGroups(self.runtime)
        self.consumer = ConsumerGroups(self.runtime)
        self.share = ShareGroups(self.runtime)
        self.streams = StreamsGroups(self.runtime)
        self.offsets = Offsets(self.runtime)

    def start(self) -> None:
        """Start expiring offsets every `offsets.retention.check.interval.ms`."""
        self.runtime.every(self.runtime.config.offsets_retention_check_interval_ms, self.offsets.expire)

    def close(self) -> None:
        self.share.close()
        self.runtime.close()

    async def topics_deleted(self, topics: Iterable[str]) -> None:
        await self.offsets.topics_deleted(topics)

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Return the groups on this broker. An empty filter matches every group."""
        wanted_states = {state.lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listings = []
        for shard in self.runtime:
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

    async def _delete_group(self, group_id: str) -> ErrorCode:
        try:
            shard = self.runtime.shard_of(group_id)
            group = shard.groups.get(group_id)
            if group is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            if not group.is_empty:
                raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
            if group.share_keys():
                await self.share.delete_state(group)
                if not self.runtime.holds(shard, group) or not group.is_empty:
                    raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
            await self._write_tombstones(shard, group)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def _write_tombstones(self, shard: GroupShard, group: Group) -> None:
        group_id = group.group_id
        offsets = [(offset_key(group_id, topic, p), None) for topic, p, _ in group.offsets]
        pending = self.runtime.append(shard, [*offsets, *group.tombstones()])
        # Remove the group immediately, so that no member joins a group already deleted in the log.
        del shard.groups[group_id]
        if pending is not None:
            try:
                await pending
            except KafkaError:
                shard.groups.setdefault(group_id, group)
                raise
        now_ms = self.runtime.clock()
        self.runtime.run(shard, group, group.die(ErrorCode.UNKNOWN_MEMBER_ID, now_ms))
