"""The share coordinator: keeps the state of share-partitions, in memory and in `__share_group_state`."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

from ottla.coordinator.runtime.state_log import KeyValue, StateLog, append_error, partition_for
from ottla.coordinator.share.share_partition import StateBatch
from ottla.coordinator.share.state_records import (
    SNAPSHOT_KEY,
    UNINITIALIZED,
    ShareKey,
    ShareState,
    apply,
    coordinator_key,
    snapshot_record,
    tombstone,
    update_record,
)
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class ShareUpdate(NamedTuple):
    """What the leader of a share-partition wants to be kept: batches that have changed, and where it begins."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete: int
    batches: list[StateBatch]


class PrunableLog(StateLog, Protocol):
    def end_offset(self, partition: int) -> int: ...

    def wait_committed(self, partition: int) -> Awaitable[None] | None:
        """Ends when all that was appended so far is on every in-sync replica; None: it is already."""

    def delete_before(self, partition: int, offset: int) -> None: ...


class _Shard:
    """One partition of `__share_group_state`: while `loading`, its states are not known yet."""

    __slots__ = ("leader_epoch", "loading", "snapshots", "states")

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.loading = True
        self.states: dict[ShareKey, ShareState] = {}
        # Where the latest snapshot of each share-partition is. What lies before all of them is not needed any more.
        self.snapshots: dict[ShareKey, int] = {}

    def snapshot_at(self, key: ShareKey, offset: int) -> None:
        if key in self.states:
            self.snapshots[key] = offset
        else:
            self.snapshots.pop(key, None)


class ShareStateStore:
    """Invariant: a state is in memory only while this broker leads its partition of the topic, and then it is what the
    log says. Owned by the event loop.
    """

    def __init__(
        self, state_log: PrunableLog, clock: Callable[[], int], updates_per_snapshot: int = 500
    ) -> None:
        self._log = state_log
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot
        self._shards: dict[int, _Shard] = {}
        self.partition_count = 0

    # Life

    def set_partition_count(self, partitions: int) -> None:
        self.partition_count = partitions

    async def become_leader(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of the topic from now on: read it."""
        known = self._shards.get(partition)
        if known is not None:
            if known.leader_epoch >= leader_epoch:
                return
            if not known.loading:
                known.leader_epoch = leader_epoch  # led all the time: what is in memory is what was written
                return
        shard = self._shards[partition] = _Shard(leader_epoch)
        try:
            async for _, records in self._log.read(partition):
                for record in records:
                    try:
                        key = apply(shard.states, record.key or b"", record.value)
                        if key is not None:
                            shard.snapshot_at(key, record.offset)
                    except ValueError as error:
                        log.warning("record %d of __share_group_state is left out: %s", record.offset, error)
        except BaseException:
            if self._shards.get(partition) is shard:
                del self._shards[partition]
            raise
        shard.loading = False

    def resign(self, partition: int, leader_epoch: int | None = None) -> None:
        shard = self._shards.get(partition)
        if shard is not None and (leader_epoch is None or leader_epoch >= shard.leader_epoch):
            del self._shards[partition]

    # States

    def get(self, key: ShareKey) -> ShareState:
        """Raises KafkaError(INVALID_REQUEST) for what was never initialized, and others for what is kept elsewhere."""
        state = self._shard(key)[1].states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The share-partition is not initialized.")
        return state

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Awaitable[None] | None:
        """Begin anew, at that offset. What was known before is forgotten."""
        now_ms = self._clock()
        partition, shard = self._shard(key)
        states = shard.states
        before = states.get(key)
        if before is not None:
            if before.state_epoch > state_epoch:
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
            if before.state_epoch == state_epoch and start_offset == UNINITIALIZED:
                return self._committed(partition)  # asked again, or late: what has been read since stays
        state = ShareState(state_epoch, start_offset=start_offset, created_ms=now_ms, written_ms=now_ms)
        if start_offset >= 0:
            state.delivery_complete = 0
        if before is not None:
            state.snapshot_epoch = before.snapshot_epoch + 1
            state.leader_epoch = before.leader_epoch
        states[key] = state
        try:
            return self._append(key, snapshot_record(key, state))
        except KafkaError:
            if before is None:
                del states[key]
            else:
                states[key] = before
            raise

    def read(self, key: ShareKey, leader_epoch: int) -> Awaitable[ShareState] | ShareState:
        """For the leader of that epoch. Leaders before it are fenced from now on."""
        state = self._check(key, leader_epoch)
        if leader_epoch > state.leader_epoch:
            before, state.leader_epoch = state.leader_epoch, leader_epoch
            try:
                pending = self._append(key, update_record(key, state, state.start_offset, []))
            except KafkaError:
                state.leader_epoch = before
                raise
            state.updates += 1
        else:
            pending = self._committed(self._partition_of(key))
        return state if pending is None else self._when_committed(pending, key)

    def summary(self, key: ShareKey, leader_epoch: int) -> Awaitable[ShareState | None] | ShareState | None:
        """None: nothing is kept of it."""
        partition, shard = self._shard(key)
        if key not in shard.states:
            return None
        self._check(key, leader_epoch)
        pending = self._committed(partition)
        return shard.states[key] if pending is None else self._when_committed(pending, key)

    def write(self, key: ShareKey, update: ShareUpdate) -> Awaitable[None] | None:
        """Raises KafkaError with nothing changed."""
        before = self.get(key)
        if update.leader_epoch < before.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if update.state_epoch < before.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        needs_snapshot = before.updates + 1 >= self._updates_per_snapshot
        state = replace(before, records=dict(before.records)) if needs_snapshot else before
        epochs = (state.leader_epoch, state.delivery_complete)
        state.leader_epoch, state.delivery_complete = update.leader_epoch, update.delivery_complete
        records = [update_record(key, state, update.start_offset, update.batches)]
        if needs_snapshot:
            state.put(update.start_offset, update.delivery_complete, update.batches)
            state.updates = 0
            state.snapshot_epoch += 1
            state.written_ms = self._clock()
            records.append(snapshot_record(key, state))
        try:
            pending = self._append(key, *records)
        except KafkaError:
            state.leader_epoch, state.delivery_complete = epochs
            raise
        if needs_snapshot:
            self._shard(key)[1].states[key] = state
        else:
            state.put(update.start_offset, update.delivery_complete, update.batches)
            state.updates += 1
        return pending

    def delete(self, key: ShareKey) -> Awaitable[None] | None:
        """What is not kept is deleted already."""
        partition, shard = self._shard(key)
        state = shard.states.pop(key, None)
        if state is None:
            return self._committed(partition)
        try:
            return self._append(key, tombstone(key))
        except KafkaError:
            shard.states[key] = state
            raise

    def delete_topics(self, topic_ids: set[bytes]) -> list[Awaitable[None]]:
        """What is kept here of them; others do the same with what they keep."""
        gone = [
            key
            for shard in self._shards.values()
            if not shard.loading
            for key in shard.states
            if key.topic_id in topic_ids
        ]
        return [pending for key in gone if (pending := self.delete(key)) is not None]

    # Steps

    def _partition_of(self, key: ShareKey) -> int:
        if not self.partition_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_of(key, self.partition_count)

    def _shard(self, key: ShareKey) -> tuple[int, _Shard]:
        partition = self._partition_of(key)
        shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR,
                f"Another broker keeps the state of this share-partition (__share_group_state-{partition}).",
            )
        if shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return partition, shard

    def _check(self, key: ShareKey, leader_epoch: int) -> ShareState:
        state = self.get(key)
        if 0 <= leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        return state

    def _append(self, key: ShareKey, *records: KeyValue) -> Awaitable[None] | None:
        partition, shard = self._shard(key)
        try:
            pending = self._log.append(partition, records, self._clock())
            offset = self._log.end_offset(partition) - 1
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error
        is_snapshot = records[-1][0][:2] == SNAPSHOT_KEY
        if pending is not None:
            return self._appended(pending, partition, shard, key, offset if is_snapshot else -1)
        if is_snapshot:
            self._prune(partition, shard, key, offset)
        return None

    async def _appended(
        self, pending: Awaitable[None], partition: int, shard: _Shard, key: ShareKey, snapshot: int
    ) -> None:
        await _translated(pending)
        if snapshot >= 0 and self._shards.get(partition) is shard:
            self._prune(partition, shard, key, snapshot)

    def _prune(self, partition: int, shard: _Shard, key: ShareKey, offset: int) -> None:
        """A snapshot is committed: nobody needs what lies before the latest one of every share-partition."""
        shard.snapshot_at(key, offset)
        try:
            self._log.delete_before(partition, min(shard.snapshots.values(), default=offset + 1))
        except KafkaError as error:
            log.info("__share_group_state-%d was not shortened: %s", partition, error)

    def _committed(self, partition: int) -> Awaitable[None] | None:
        """What is answered is what any later coordinator will know."""
        try:
            pending = self._log.wait_committed(partition)
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error
        return None if pending is None else _translated(pending)

    async def _when_committed(self, pending: Awaitable[None], key: ShareKey) -> ShareState:
        await pending
        return self.get(key)


async def _translated(pending: Awaitable[None]) -> None:
    try:
        await pending
    except KafkaError as error:
        raise KafkaError(append_error(error.code), error.message) from error


def partition_of(key: ShareKey, partitions: int) -> int:
    """The partition of `__share_group_state` that keeps a share-partition."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return partition_for(coordinator_key(key, topic_id), partitions)
