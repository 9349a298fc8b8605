"""Consumer groups (KIP-848): heartbeats, descriptions, and the upgrade of classic groups."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator

from ottla.coordinator.groups.base.base_group import Group
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.groups.consumer.migration import to_consumer
from ottla.coordinator.groups.group_runtime import GroupRuntime, GroupShard
from ottla.coordinator.groups.modern.consumer_state import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.groups.modern.subscribing_group import (
    HeartbeatRequest,
    HeartbeatResult,
    ModernGroupDescription,
)
from ottla.coordinator.runtime.coordinator_runtime import when_stored
from ottla.protocol.errors import ErrorCode, KafkaError


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
