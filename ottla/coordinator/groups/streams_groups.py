"""Streams groups (KIP-1071): heartbeats and descriptions.

An empty classic group can become a streams group and keeps its offsets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator

from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.group_runtime import GroupRuntime
from ottla.coordinator.groups.modern.consumer_state import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.groups.streams.heartbeat import (
    StreamsGroupDescription,
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
)
from ottla.coordinator.groups.streams.streams_group import StreamsGroup
from ottla.coordinator.runtime.coordinator_runtime import when_stored
from ottla.protocol.errors import ErrorCode, KafkaError


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

    def describe(self, group_ids: Iterable[str]) -> Iterator[StreamsGroupDescription]:
        for group_id in group_ids:
            try:
                yield self._runtime.get(group_id, StreamsGroup)[1].describe()
            except KafkaError as error:
                yield StreamsGroupDescription(group_id, error.code, error.message)
