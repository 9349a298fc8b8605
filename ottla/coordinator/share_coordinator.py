"""Share groups of KIP-932: heartbeats, descriptions, and where they begin to read."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field

from ottla.coordinator.consumer_coordinator import ConsumerGroupCoordinator, NamedPartitions
from ottla.coordinator.consumer_group import HeartbeatRequest, HeartbeatResult
from ottla.coordinator.consumer_state import JOIN_EPOCH, LEAVE_EPOCH, ConsumerMember
from ottla.coordinator.shards import Shard
from ottla.coordinator.share_group import ShareGroup
from ottla.coordinator.share_state import ShareKey
from ottla.coordinator.share_state_store import ShareStateStore
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


class ShareGroupCoordinator(ConsumerGroupCoordinator):
    """Owned by the event loop."""

    # Set by whoever holds the partitions of `__share_group_state`.
    share_states: ShareStateStore | None = None

    def share_heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        """Raises KafkaError, or the awaitable does."""
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
        result, records, effects = group.heartbeat(request, shards.clock())
        try:
            for topic_id, partition in group.fresh:
                key = ShareKey(group_id, topic_id, partition)
                if self._states.get(key) is None:
                    self._states.initialize(key, group.epoch)
        except KafkaError:
            group.rollback()
            raise
        group.fresh = []
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

    def alter_share_offsets(
        self, group_id: str, topic_id: bytes, name: str, starts: Sequence[tuple[int, int]]
    ) -> None:
        """Let the group begin anew at these offsets, by partition; one that is not there is made. Raises KafkaError."""
        shard = self._shards.of(group_id)
        if group_id in shard.groups:
            _, group = self.share_group(group_id)
        else:
            group = self._shards.new_share_group(group_id)
        for partition, offset in starts:
            self._states.initialize(ShareKey(group_id, topic_id, partition), group.epoch, offset)
        numbers = frozenset(partition for partition, _ in starts)
        self._shards.store(shard, group, *group.set_initialized(topic_id, name, numbers))

    def delete_share_offsets(self, group_id: str, topic_id: bytes, name: str) -> None:
        shard, group = self.share_group(group_id)
        if topic_id not in group.state_now.initialized:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
            )
        self._states.delete([key for key in self._states.keys(group_id) if key.topic_id == topic_id])
        self._shards.store(shard, group, *group.set_initialized(topic_id, name, frozenset()))

    def check_empty(self, group_id: str, *, may_be_missing: bool = False) -> None:
        if may_be_missing and group_id not in self._shards.of(group_id).groups:
            return
        _, group = self.share_group(group_id)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    # Steps

    @property
    def _states(self) -> ShareStateStore:
        if self.share_states is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.share_states

    def _delete_share_state(self, group_id: str) -> None:
        if self.share_states is not None:
            self.share_states.delete(self.share_states.keys(group_id))

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
