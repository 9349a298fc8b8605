"""Committed offsets: commit, fetch, delete, expire."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.groups.consumer.records import tombstones
from ottla.coordinator.groups.consumer.state import Assignment
from ottla.coordinator.groups.offsets.offsets import NO_TOPIC_ID, CommittedOffset, expired_offsets
from ottla.coordinator.groups.records import OffsetKey, group_key, offset_key, offset_value
from ottla.coordinator.groups.shards import Group, Shard, Shards
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.group_records import share_tombstones
from ottla.protocol.errors import ErrorCode, KafkaError

_EXPIRATION_TIMER = "offset expiration"
# An append of more tombstones than this would hold up the event loop.
_TOMBSTONES_AT_ONCE = 1_000


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = NO_TOPIC_ID


def _partitions(offsets: Sequence[OffsetToCommit]) -> Assignment:
    by_topic: dict[bytes, set[int]] = {}
    for offset in offsets:
        by_topic.setdefault(offset.topic_id, set()).add(offset.partition)
    return {topic_id: frozenset(found) for topic_id, found in by_topic.items()}


class OffsetCoordinator:
    """Offsets become visible when their records are on every in-sync replica. Owned by the event loop."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def commit_offsets(
        self,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        generation_id: int = -1,
        retention_time_ms: int = -1,
        unknown_group_error: ErrorCode = ErrorCode.ILLEGAL_GENERATION,
        knows_epochs: bool = True,
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """One error per offset, in order.

        Version 9 brings `unknown_group_error` GROUP_ID_NOT_FOUND and the epochs of consumer groups.
        """
        try:
            shard = self._shards.of(group_id)
        except KafkaError as failure:
            return [failure.code] * len(offsets)
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            try:
                group.check_commit(
                    member_id, generation_id, partial(_partitions, offsets), knows_epochs=knows_epochs
                )
                error = ErrorCode.NONE
            except KafkaError as failure:
                error = failure.code
        elif group is not None:
            error, effects = group.commit(member_id, group_instance_id, generation_id)
            if effects:
                self._shards.run(shard, group, effects)
        else:
            # A consumer that assigns partitions to itself needs no group to be there.
            error = ErrorCode.NONE if generation_id < 0 else unknown_group_error
        if error:
            return [error] * len(offsets)
        now_ms = self._shards.clock()
        expire = -1 if retention_time_ms < 0 else now_ms + retention_time_ms
        longest = self._shards.config.offset_metadata_max_bytes
        errors = []
        accepted: list[tuple[str, int, CommittedOffset]] = []
        records: list[KeyValue] = []
        try:
            for topic, partition, offset, leader_epoch, metadata, topic_id in offsets:
                if metadata is not None and len(metadata) > longest:
                    errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                    continue
                committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, expire, topic_id)
                records.append((offset_key(group_id, topic, partition), offset_value(committed)))
                accepted.append((topic, partition, committed))
                errors.append(ErrorCode.NONE)
        except ValueError:
            return [ErrorCode.INVALID_GROUP_ID] * len(offsets)
        if not records:
            return errors
        try:
            pending = self._shards.append(shard, records)
        except KafkaError as failure:
            return [error or failure.code for error in errors]
        if pending is not None:
            return self._finish_commit(shard, group_id, accepted, errors, pending)
        self._put_offsets(shard, group_id, accepted)
        return errors

    def fetch_offsets(
        self,
        group_id: str,
        topics: Iterable[tuple[str, Sequence[int]]] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[tuple[str, list[tuple[int, CommittedOffset | None]]]]:
        """What was asked for in the order asked, None where nothing is committed; all there is for None.

        Raises KafkaError for what concerns the whole group.
        """
        group = self._shards.of(group_id).groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.check_fetch(member_id, member_epoch)
        by_topic = {} if group is None else group.offsets.by_topic
        if topics is None:
            return [(topic, list(partitions.items())) for topic, partitions in by_topic.items()]
        result = []
        for topic, wanted in topics:
            partitions = by_topic.get(topic, {})
            result.append((topic, [(partition, partitions.get(partition)) for partition in wanted]))
        return result

    async def delete_offsets(self, group_id: str, offsets: Sequence[tuple[str, int]]) -> list[ErrorCode]:
        """One error per offset, in order. Raises KafkaError for what concerns the whole group."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = self._shards.of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not group.is_empty and not group.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        errors = []
        removable = []
        for topic, partition in offsets:
            if group.is_subscribed_to(topic):
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(ErrorCode.NONE)
            if group.offsets.get(topic, partition) is not None:
                removable.append((topic, partition))
        await self._remove_offsets(shard, group, removable)
        return errors

    async def topics_deleted(self, topics: Iterable[str]) -> None:
        """The topics are gone: no group has offsets in them any more."""
        names = set(topics)
        for shard in self._shards:
            for group in list(shard.groups.values()):
                gone = [
                    (t, p) for t in names & group.offsets.by_topic.keys() for p in group.offsets.by_topic[t]
                ]
                if gone:
                    await self._remove_offsets(shard, group, gone)

    async def expire_offsets(self) -> None:
        """Remove the offsets whose retention is over, and the empty groups that have none left."""
        retention_ms = self._shards.config.offsets_retention_ms
        for shard in self._shards:
            for group in list(shard.groups.values()):
                if not self._shards.holds(shard, group):
                    continue
                expired = expired_offsets(group, self._shards.clock(), retention_ms)
                if expired:
                    await self._remove_offsets(shard, group, expired)
                # What a share group has read is kept elsewhere: it goes when it is deleted.
                if isinstance(group, ShareGroup):
                    continue
                if (
                    group.is_empty
                    and not group.offsets
                    and not group.has_pending_members
                    and not shard.pending_offsets.has_group(group.group_id)
                ):
                    await self._remove_group(shard, group)

    # Steps

    async def _finish_commit(
        self,
        shard: Shard,
        group_id: str,
        accepted: list[tuple[str, int, CommittedOffset]],
        errors: list[ErrorCode],
        pending: Awaitable[None],
    ) -> list[ErrorCode]:
        try:
            await self._shards.committed(pending)
        except KafkaError as failure:
            return [error or failure.code for error in errors]
        self._put_offsets(shard, group_id, accepted)
        return errors

    def _put_offsets(
        self, shard: Shard, group_id: str, accepted: list[tuple[str, int, CommittedOffset]]
    ) -> None:
        group = shard.groups.get(group_id)
        if group is None:
            group = shard.groups[group_id] = self._shards.new_group(group_id)
        for topic, partition, committed in accepted:
            group.offsets.put(topic, partition, committed)
            if shard.pending_offsets.by_producer:
                shard.pending_offsets.overtake(OffsetKey(group_id, topic, partition))

    async def _remove_offsets(self, shard: Shard, group: Group, removable: list[tuple[str, int]]) -> None:
        for i in range(0, len(removable), _TOMBSTONES_AT_ONCE):
            chunk = [(t, p, group.offsets.get(t, p)) for t, p in removable[i : i + _TOMBSTONES_AT_ONCE]]
            pending = self._shards.append(
                shard, [(offset_key(group.group_id, topic, p), None) for topic, p, _ in chunk]
            )
            if pending is not None:
                await self._shards.committed(pending)
            for topic, partition, offset in chunk:
                # While the append was under way a newer offset may have been committed: it stays.
                if group.offsets.get(topic, partition) is offset:
                    group.offsets.remove(topic, partition)

    async def _remove_group(self, shard: Shard, group: Group) -> None:
        pending = self._shards.append(shard, self._group_tombstones(group))
        if pending is not None:
            await self._shards.committed(pending)
        if group.is_empty and not group.offsets and self._shards.holds(shard, group):
            del shard.groups[group.group_id]

    def _group_tombstones(self, group: Group) -> list[KeyValue]:
        if isinstance(group, ConsumerGroup):
            return tombstones(group.group_id, group.state_now)
        if isinstance(group, ShareGroup):
            return share_tombstones(group.group_id, group.state_now)
        return [(group_key(group.group_id), None)]

    def _schedule_expiration(self) -> None:
        interval = self._shards.config.offsets_retention_check_interval_ms
        self._shards.timers.set(_EXPIRATION_TIMER, interval, self._begin_expiration)

    def _begin_expiration(self) -> None:
        self._shards.in_background(self._expire_and_reschedule())

    async def _expire_and_reschedule(self) -> None:
        try:
            await self.expire_offsets()
        except KafkaError:
            pass  # the next round tries again
        finally:
            self._schedule_expiration()
