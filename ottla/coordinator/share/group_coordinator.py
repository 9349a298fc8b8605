"""Share groups of KIP-932: heartbeats, descriptions, and where they begin to read."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ottla.coordinator.groups.consumer.coordinator import ConsumerGroupCoordinator, NamedPartitions
from ottla.coordinator.groups.consumer.group import HeartbeatRequest, HeartbeatResult
from ottla.coordinator.groups.consumer.state import JOIN_EPOCH, LEAVE_EPOCH, ConsumerMember
from ottla.coordinator.groups.shards import Shard
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.state_records import UNINITIALIZED, ShareKey
from ottla.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class ShareGroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: list[tuple[ConsumerMember, NamedPartitions]] = field(default_factory=list)


class ShareGroupStates(Protocol):
    """The share coordinators, wherever they are. Raises KafkaError if one of several fails."""

    async def initialize(self, state_epoch: int, starts: Mapping[ShareKey, int]) -> None: ...

    async def delete(self, keys: Iterable[ShareKey]) -> None: ...


class ShareGroupCoordinator(ConsumerGroupCoordinator):
    """Owned by the event loop."""

    # Set by whoever knows the way to the share coordinators.
    share_states: ShareGroupStates | None = None

    def share_heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        """Raises KafkaError, or the awaitable does."""
        shard, group = self._share_group_of(group_id, request)
        if group.unshared(request):
            return self._share_first(group_id, request)
        return self._heartbeat(shard, group, request)

    async def _share_first(self, group_id: str, request: HeartbeatRequest) -> HeartbeatResult:
        """Partitions that nobody in the group has subscribed to before: their state is kept before members get them."""
        begun: set[ShareKey] = set()
        while True:
            shard, group = self._share_group_of(group_id, request)
            keys = {ShareKey(group_id, topic_id, p) for topic_id, p in group.unshared(request)} - begun
            if not begun:
                group.check(request, self._shards.clock())
            if not keys:
                result = self._heartbeat(shard, group, request)
                return result if isinstance(result, HeartbeatResult) else await result
            await self._states.initialize(group.epoch + 1, dict.fromkeys(keys, UNINITIALIZED))
            begun |= keys

    def _share_group_of(self, group_id: str, request: HeartbeatRequest) -> tuple[Shard, ShareGroup]:
        shards = self._shards
        shard = shards.of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            if request.member_epoch != JOIN_EPOCH:
                kind = "Group" if request.member_epoch <= LEAVE_EPOCH else "Share group"
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
            group = shards.new_share_group(group_id)
        elif not isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return shard, group

    def _heartbeat(
        self, shard: Shard, group: ShareGroup, request: HeartbeatRequest
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        shards = self._shards
        result, records, effects = group.heartbeat(request, shards.clock())
        pending = shards.store(shard, group, records, effects)
        return result if pending is None else self._when_stored(pending, result)

    def describe_share_groups(self, group_ids: Iterable[str]) -> list[ShareGroupDescription]:
        return [self._describe_share_group(group_id) for group_id in group_ids]

    def share_group(self, group_id: str) -> tuple[Shard, ShareGroup]:
        """KafkaError(GROUP_ID_NOT_FOUND) for what is none."""
        shard = self._shards.of(group_id)
        group = shard.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            problem = "not found" if group is None else "is not a share group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}.")
        return shard, group

    async def alter_share_offsets(
        self, group_id: str, topic_id: bytes, name: str, starts: Mapping[int, int]
    ) -> None:
        """Let the group begin anew at these offsets, by partition; one that is not there is made. Raises KafkaError."""
        _, group = self.check_empty(group_id, may_be_missing=True)
        # A new epoch: a leader that still knows the state from before is fenced.
        await self._states.initialize(
            group.epoch + 1, {ShareKey(group_id, topic_id, index): start for index, start in starts.items()}
        )
        await self._set_initialized(group_id, topic_id, name, frozenset(starts))

    async def delete_share_offsets(self, group_id: str, topic_id: bytes, name: str) -> None:
        _, group = self.check_empty(group_id)
        if topic_id not in group.state_now.initialized:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
            )
        await self._states.delete([key for key in group.shared() if key.topic_id == topic_id])
        await self._set_initialized(group_id, topic_id, name, frozenset())

    async def _set_initialized(
        self, group_id: str, topic_id: bytes, name: str, partitions: frozenset[int]
    ) -> None:
        shard, group = self._found_or_new(group_id)
        pending = self._shards.store(shard, group, *group.set_initialized(topic_id, name, partitions))
        if pending is not None:
            await self._shards.committed(pending)

    def _found_or_new(self, group_id: str) -> tuple[Shard, ShareGroup]:
        shard = self._shards.of(group_id)
        if group_id in shard.groups:
            return self.share_group(group_id)
        return shard, self._shards.new_share_group(group_id)

    def check_empty(self, group_id: str, *, may_be_missing: bool = False) -> tuple[Shard, ShareGroup]:
        shard, group = self._found_or_new(group_id) if may_be_missing else self.share_group(group_id)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        return shard, group

    # Steps

    @property
    def _states(self) -> ShareGroupStates:
        if self.share_states is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.share_states

    async def _delete_share_state(self, group: ShareGroup) -> None:
        keys = group.shared()
        if keys:
            await self._states.delete(keys)

    def _describe_share_group(self, group_id: str) -> ShareGroupDescription:
        try:
            _, group = self.share_group(group_id)
        except KafkaError as error:
            return ShareGroupDescription(group_id, error.code, error.message)
        description = ShareGroupDescription(
            group_id,
            state=group.state.value,
            epoch=group.epoch,
            assignment_epoch=group.state_now.target_epoch,
            assignor=group.assignor,
        )
        for member in group.members.values():
            description.members.append((member, self._named(member.assigned)))
        return description
