"""Commit, fetch, delete and expire offsets, including transactional offsets that wait for a marker."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from ottla.coordinator.groups.base.base_group import Assignment, Group
from ottla.coordinator.groups.base.committed_offsets import (
    NO_TOPIC_ID,
    CommittedOffset,
    OffsetKey,
    offset_key,
    offset_value,
)
from ottla.coordinator.groups.group_runtime import GroupRuntime, GroupShard
from ottla.coordinator.runtime import KeyValue, ProducerEpoch
from ottla.protocol.errors import ErrorCode, KafkaError

# Larger appends of tombstones would block the event loop.
_TOMBSTONES_AT_ONCE = 1_000


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes = NO_TOPIC_ID


class _Commit:
    """Offsets of one commit request: an error for each, and records for the accepted ones."""

    __slots__ = ("accepted", "errors", "records")

    def __init__(
        self, group_id: str, offsets: Sequence[OffsetToCommit], now_ms: int, expire_ms: int, longest: int
    ) -> None:
        """Raises ValueError if the group id is too long for a record."""
        self.errors: list[ErrorCode] = []
        self.records: list[KeyValue] = []
        self.accepted: list[tuple[str, int, CommittedOffset]] = []
        for topic, partition, offset, leader_epoch, metadata, topic_id in offsets:
            if metadata is not None and len(metadata) > longest:
                self.errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, expire_ms, topic_id)
            self.records.append((offset_key(group_id, topic, partition), offset_value(committed)))
            self.accepted.append((topic, partition, committed))
            self.errors.append(ErrorCode.NONE)

    def failed(self, code: ErrorCode) -> list[ErrorCode]:
        return [error or code for error in self.errors]


class Offsets:
    """Offsets of all groups on this broker.

    Offsets become visible once every in-sync replica has their records. Transactional offsets stay pending until the
    marker arrives; meanwhile clients that require stable offsets must retry.

    Owner: the event loop.
    """

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def commit(
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
        """Commit offsets and return one error per offset, in order.

        Version 9 adds GROUP_ID_NOT_FOUND as `unknown_group_error` and the epochs of consumer groups.
        """
        runtime = self._runtime
        try:
            shard = runtime.shard_of(group_id)
        except KafkaError as failure:
            return [failure.code] * len(offsets)
        group = shard.groups.get(group_id)
        if group is not None:
            error, effects = group.commit(
                member_id,
                group_instance_id,
                generation_id,
                partial(_partitions, offsets),
                knows_epochs=knows_epochs,
            )
            if effects:
                runtime.run(shard, group, effects)
        else:
            # A consumer with manually assigned partitions needs no existing group.
            error = ErrorCode.NONE if generation_id < 0 else unknown_group_error
        if error:
            return [error] * len(offsets)
        now_ms = runtime.clock()
        expire_ms = -1 if retention_time_ms < 0 else now_ms + retention_time_ms
        try:
            commit = _Commit(group_id, offsets, now_ms, expire_ms, runtime.config.offset_metadata_max_bytes)
        except ValueError:
            return [ErrorCode.INVALID_GROUP_ID] * len(offsets)
        if not commit.records:
            return commit.errors
        try:
            pending = runtime.append(shard, commit.records)
        except KafkaError as failure:
            return commit.failed(failure.code)
        if pending is not None:
            return self._finish_commit(shard, group_id, commit, pending)
        self._put(shard, group_id, commit.accepted)
        return commit.errors

    def commit_transactional(
        self,
        group_id: str,
        producer: ProducerEpoch,
        offsets: Sequence[OffsetToCommit],
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        generation_id: int = -1,
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Write offsets that take effect when the producer's transaction commits. Return one error per offset, in
        order.

        The commit waits for the in-sync replicas. Otherwise a leader could fail with unreplicated offsets, and the
        transaction would commit without them.
        """
        runtime = self._runtime
        try:
            shard = runtime.shard_of(group_id)
            group = shard.groups.get(group_id)
            if group is None:
                # As with plain commits, no member needs to have joined.
                error = ErrorCode.NONE if generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
            else:
                error = group.check_transactional_commit(
                    member_id, group_instance_id, generation_id, partial(_partitions, offsets)
                )
            if error:
                return [error] * len(offsets)
            commit = _Commit(group_id, offsets, runtime.clock(), -1, runtime.config.offset_metadata_max_bytes)
            if not commit.records:
                return commit.errors
            pending = runtime.append(shard, commit.records, producer)
        except KafkaError as failure:
            return [failure.code] * len(offsets)
        except ValueError:
            return [ErrorCode.INVALID_GROUP_ID] * len(offsets)
        for topic, partition, committed in commit.accepted:
            shard.pending_offsets.add(producer.producer_id, OffsetKey(group_id, topic, partition), committed)
        return commit.errors if pending is None else _when_replicated(pending, commit)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return True if an ongoing transaction commits this offset."""
        shard = self._runtime.shard_of(group_id)
        return shard.pending_offsets.is_pending(OffsetKey(group_id, topic, partition))

    def check_marker(self, partition: int) -> None:
        """Raise KafkaError while the partition is loading, since loading would miss the marker. The sender retries."""
        shard = self._runtime.find(partition)
        if shard is not None and shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def end_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Apply or drop the pending offsets of a producer after a marker was written to this partition."""
        shard = self._runtime.find(partition)
        if shard is None:
            return
        for key, committed in shard.pending_offsets.end(producer_id):
            if commit and committed is not None:
                self._put(shard, key.group_id, [(key.topic, key.partition, committed)])

    def fetch(
        self,
        group_id: str,
        topics: Iterable[tuple[str, Sequence[int]]] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> list[tuple[str, list[tuple[int, CommittedOffset | None]]]]:
        """Return offsets in request order, None where nothing is committed. `topics=None` returns all offsets.

        Raises KafkaError if the whole request fails.
        """
        group = self._runtime.shard_of(group_id).groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)
        by_topic = {} if group is None else group.offsets.by_topic
        if topics is None:
            return [(topic, list(partitions.items())) for topic, partitions in by_topic.items()]
        result = []
        for topic, wanted in topics:
            partitions = by_topic.get(topic, {})
            result.append((topic, [(partition, partitions.get(partition)) for partition in wanted]))
        return result

    async def delete(self, group_id: str, offsets: Sequence[tuple[str, int]]) -> list[ErrorCode]:
        """Delete offsets and return one error per offset, in order. Raises KafkaError if the whole request fails."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = self._runtime.shard_of(group_id)
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
        await self._remove(shard, group, removable)
        return errors

    async def topics_deleted(self, topics: Iterable[str]) -> None:
        names = set(topics)
        for shard in self._runtime:
            for group in list(shard.groups.values()):
                gone = [
                    (t, p) for t in names & group.offsets.by_topic.keys() for p in group.offsets.by_topic[t]
                ]
                if gone:
                    await self._remove(shard, group, gone)

    async def expire(self) -> None:
        retention_ms = self._runtime.config.offsets_retention_ms
        for shard in self._runtime:
            for group in list(shard.groups.values()):
                if not self._runtime.holds(shard, group):
                    continue
                expired = _expired_offsets(group, self._runtime.clock(), retention_ms)
                if expired:
                    await self._remove(shard, group, expired)
                if (
                    group.expires
                    and group.is_empty
                    and not group.offsets
                    and not group.has_pending_members
                    and not shard.pending_offsets.has_group(group.group_id)
                ):
                    await self._remove_group(shard, group)

    # Internals

    async def _finish_commit(
        self, shard: GroupShard, group_id: str, commit: _Commit, pending: Awaitable[None]
    ) -> list[ErrorCode]:
        errors = await _when_replicated(pending, commit)
        if errors is commit.errors:
            self._put(shard, group_id, commit.accepted)
        return errors

    def _put(
        self, shard: GroupShard, group_id: str, accepted: list[tuple[str, int, CommittedOffset]]
    ) -> None:
        group = shard.groups.get(group_id)
        if group is None:
            group = shard.groups[group_id] = self._runtime.new_classic_group(group_id)
        for topic, partition, committed in accepted:
            group.offsets.put(topic, partition, committed)
            if shard.pending_offsets.by_producer:
                shard.pending_offsets.overtake(OffsetKey(group_id, topic, partition))

    async def _remove(self, shard: GroupShard, group: Group, removable: list[tuple[str, int]]) -> None:
        for i in range(0, len(removable), _TOMBSTONES_AT_ONCE):
            chunk = [(t, p, group.offsets.get(t, p)) for t, p in removable[i : i + _TOMBSTONES_AT_ONCE]]
            pending = self._runtime.append(
                shard, [(offset_key(group.group_id, topic, p), None) for topic, p, _ in chunk]
            )
            if pending is not None:
                await pending
            for topic, partition, offset in chunk:
                # Keep a newer offset committed during the append.
                if group.offsets.get(topic, partition) is offset:
                    group.offsets.remove(topic, partition)

    async def _remove_group(self, shard: GroupShard, group: Group) -> None:
        pending = self._runtime.append(shard, group.tombstones())
        if pending is not None:
            await pending
        if group.is_empty and not group.offsets and self._runtime.holds(shard, group):
            del shard.groups[group.group_id]


async def _when_replicated(pending: Awaitable[None], commit: _Commit) -> list[ErrorCode]:
    try:
        await pending
    except KafkaError as failure:
        return commit.failed(failure.code)
    return commit.errors


def _partitions(offsets: Sequence[OffsetToCommit]) -> Assignment:
    by_topic: dict[bytes, set[int]] = {}
    for offset in offsets:
        by_topic.setdefault(offset.topic_id, set()).add(offset.partition)
    return {topic_id: frozenset(found) for topic_id, found in by_topic.items()}


def _expired_offsets(group: Group, now_ms: int, retention_ms: int) -> list[tuple[str, int]]:
    """Return the offsets that have exceeded the retention time.

    Retention counts from the moment a classic group became empty. In a stable group, offsets of unsubscribed topics
    count from their commit. Other groups without members count from the commit too.
    """
    if not group.offsets_may_expire:
        return []
    since_empty = group.empty_since
    expired = []
    for topic, partition, offset in group.offsets:
        if group.is_subscribed_to(topic):
            continue
        if offset.expire_timestamp >= 0:
            due = offset.expire_timestamp
        else:
            due = (offset.commit_timestamp if since_empty is None else since_empty) + retention_ms
        if now_ms >= due:
            expired.append((topic, partition))
    return expired
