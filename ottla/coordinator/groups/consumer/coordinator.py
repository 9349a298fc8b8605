"""Consumer groups of KIP-848: heartbeats, descriptions, and classic requests to such a group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field

from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.consumer.group import ConsumerGroup, HeartbeatRequest, HeartbeatResult
from ottla.coordinator.groups.consumer.state import JOIN_EPOCH, LEAVE_EPOCH, ConsumerMember, Held
from ottla.coordinator.groups.effects import JoinRequest, JoinResult
from ottla.coordinator.groups.migration import to_consumer
from ottla.coordinator.groups.offsets.transactional import TransactionalOffsetCoordinator
from ottla.coordinator.groups.records import group_key
from ottla.coordinator.groups.shards import Shard
from ottla.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class ConsumerGroupDescription:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    # With what each holds or still has to give up, and with what it is meant to hold; by topic name and id.
    members: list[tuple[ConsumerMember, NamedPartitions, NamedPartitions]] = field(default_factory=list)


NamedPartitions = list[tuple[str, bytes, list[int]]]


class ConsumerGroupCoordinator(TransactionalOffsetCoordinator):
    """Owned by the event loop."""

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        return self._shards.config.consumer_assignors

    def consumer_heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        """Raises KafkaError, or the awaitable does."""
        shards = self._shards
        shard = shards.of(group_id)
        group, classic = self._consumer_group(shard, group_id, request.member_epoch)
        result, records, effects = group.heartbeat(request, shards.clock())
        if classic is not None:
            records = [(group_key(group_id), None), *records]
            # Written first: until then the group is what it was.
            pending = shards.append(shard, records)
            group.stored()
            shard.groups[group_id] = group
            shards.run(shard, classic, classic.die(ErrorCode.REBALANCE_IN_PROGRESS, shards.clock()))
            shards.run(shard, group, group.start_sessions(shards.clock()))
            shards.run(shard, group, effects)
        else:
            pending = shards.store(shard, group, records, effects)
        if pending is None:
            return result
        return self._when_stored(pending, result)

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescription]:
        return [self._describe_consumer_group(group_id) for group_id in group_ids]

    # Steps

    async def _when_stored(self, pending: Awaitable[None], result: HeartbeatResult) -> HeartbeatResult:
        await self._shards.committed(pending)
        return result

    def _consumer_group(
        self, shard: Shard, group_id: str, member_epoch: int
    ) -> tuple[ConsumerGroup, ClassicGroup | None]:
        """The group, and the classic one that it takes the place of, if there is one."""
        shards = self._shards
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group, None
        if group is None:
            if member_epoch != JOIN_EPOCH:
                kind = "Group" if member_epoch <= LEAVE_EPOCH else "Consumer group"
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
            return shards.new_consumer_group(group_id), None
        if not isinstance(group, ClassicGroup) or member_epoch != JOIN_EPOCH:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            fresh = shards.new_consumer_group(group_id)
            fresh.offsets = group.offsets
            return fresh, group
        return to_consumer(group, shards.config, shards.topics), group

    def _join_consumer_group(
        self,
        shard: Shard,
        group: ConsumerGroup,
        request: JoinRequest,
        ticket: asyncio.Future[JoinResult],
    ) -> None:
        """A member that speaks the classic protocol joins a consumer group."""
        shards = self._shards
        result, records, effects = group.classic_join(request, shards.clock(), shards.new_uuid)
        try:
            pending = shards.store(shard, group, records, effects)
        except KafkaError as error:
            ticket.set_result(JoinResult(error.code, request.member_id))
            return
        if pending is None:
            ticket.set_result(result)
        else:
            shards.in_background(self._answer_when_stored(pending, ticket, result))

    async def _answer_when_stored(
        self, pending: Awaitable[None], ticket: asyncio.Future[JoinResult], result: JoinResult
    ) -> None:
        try:
            await self._shards.committed(pending)
        except KafkaError as error:
            result = JoinResult(error.code, result.member_id)
        if not ticket.done():
            ticket.set_result(result)

    def _describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        try:
            group = self._shards.of(group_id).groups.get(group_id)
        except KafkaError as error:
            return ConsumerGroupDescription(group_id, error.code)
        if not isinstance(group, ConsumerGroup):
            problem = "not found" if group is None else "is not a consumer group"
            message = f"Group {group_id} {problem}."
            return ConsumerGroupDescription(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message)
        now = group.state_now
        description = ConsumerGroupDescription(
            group_id,
            state=group.state.value,
            epoch=now.epoch,
            assignment_epoch=now.target_epoch,
            assignor=group.assignor,
        )
        for member in now.members.values():
            target = now.targets.get(member.member_id, {})
            description.members.append(
                (
                    member,
                    self._named(member.assigned, member.revoking),
                    self._named({topic_id: dict.fromkeys(p, 0) for topic_id, p in target.items()}),
                )
            )
        return description

    def _named(self, *held: Held) -> NamedPartitions:
        by_topic: dict[bytes, set[int]] = {}
        for one in held:
            for topic_id, partitions in one.items():
                by_topic.setdefault(topic_id, set()).update(partitions)
        named = []
        for topic_id, found in by_topic.items():
            topic = self._shards.topics.by_id(topic_id)
            if topic is not None:
                named.append((topic.name, topic_id, sorted(found)))
        return sorted(named)
