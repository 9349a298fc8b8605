"""The share coordinator: state of share-partitions, in memory and in `__share_group_state`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

from ottla.coordinator.runtime.coordinator_runtime import (
    CoordinatorRuntime,
    CoordinatorShard,
    replicated,
)
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
from ottla.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record

log = logging.getLogger(__name__)


class ShareUpdate(NamedTuple):
    """State update from the leader of a share-partition: changed batches and the start offset."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete: int
    batches: list[StateBatch]


class PrunableLog(StateLog, Protocol):
    def end_offset(self, partition: int) -> int: ...

    def wait_committed(self, partition: int) -> Awaitable[None] | None:
        """Wait until every in-sync replica has all appended records; None if they already do."""

    def delete_before(self, partition: int, offset: int) -> None: ...


class ShareShard(CoordinatorShard):
    """One partition of `__share_group_state`."""

    __slots__ = ("snapshots", "states")

    def __init__(self, partition: int, leader_epoch: int) -> None:
        super().__init__(partition, leader_epoch)
        self.states: dict[ShareKey, ShareState] = {}
        # Offset of the latest snapshot per share-partition. Records before the lowest of them can be deleted.
        self.snapshots: dict[ShareKey, int] = {}

    def replay(self, header: BatchHeader, record: Record) -> None:
        key = apply(self.states, record.key or b"", record.value)
        if key is not None:
            self.snapshot_at(key, record.offset)

    def get(self, key: ShareKey, leader_epoch: int = -1) -> ShareState:
        """Return the state for a leader of this epoch, if given. Raises KafkaError."""
        state = self.states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The share-partition is not initialized.")
        if 0 <= leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        return state

    def snapshot_at(self, key: ShareKey, offset: int) -> None:
        if key in self.states:
            self.snapshots[key] = offset
        else:
            self.snapshots.pop(key, None)


class ShareCoordinator:
    """Invariant: the state in memory matches the log. Owner: the event loop."""

    def __init__(
        self, state_log: PrunableLog, clock: Callable[[], int], updates_per_snapshot: int = 500
    ) -> None:
        self.runtime = CoordinatorRuntime(SHARE_GROUP_STATE_TOPIC, state_log, ShareShard, clock=clock)
        self._log = state_log
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot

    # States

    def get(self, key: ShareKey) -> ShareState:
        """Raises KafkaError: INVALID_REQUEST for uninitialized state, NOT_COORDINATOR and others if unavailable."""
        return self._shard(key).get(key)

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Awaitable[None] | None:
        """Reset the state to this start offset and discard all earlier state."""
        now_ms = self._clock()
        shard = self._shard(key)
        states = shard.states
        before = states.get(key)
        if before is not None:
            if before.state_epoch > state_epoch:
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
            if before.state_epoch == state_epoch and start_offset == UNINITIALIZED:
                return self._committed(shard)  # a repeated or late request; keep the newer state
        state = ShareState(state_epoch, start_offset=start_offset, created_ms=now_ms, written_ms=now_ms)
        if start_offset >= 0:
            state.delivery_complete = 0
        if before is not None:
            state.snapshot_epoch = before.snapshot_epoch + 1
            state.leader_epoch = before.leader_epoch
        states[key] = state
        try:
            return self._append(shard, key, snapshot_record(key, state))
        except KafkaError:
            if before is None:
                del states[key]
            else:
                states[key] = before
            raise

    def read(self, key: ShareKey, leader_epoch: int) -> Awaitable[ShareState] | ShareState:
        """Return the state to the leader of this epoch and fence earlier leaders."""
        shard = self._shard(key)
        state = shard.get(key, leader_epoch)
        if leader_epoch > state.leader_epoch:
            before, state.leader_epoch = state.leader_epoch, leader_epoch
            try:
                pending = self._append(shard, key, update_record(key, state, state.start_offset, []))
            except KafkaError:
                state.leader_epoch = before
                raise
            state.updates += 1
        else:
            pending = self._committed(shard)
        return state if pending is None else self._when_committed(pending, key)

    def summary(self, key: ShareKey, leader_epoch: int) -> Awaitable[ShareState | None] | ShareState | None:
        """Return the state, or None if nothing is stored."""
        shard = self._shard(key)
        if key not in shard.states:
            return None
        shard.get(key, leader_epoch)
        pending = self._committed(shard)
        return shard.states[key] if pending is None else self._when_committed(pending, key)

    def write(self, key: ShareKey, update: ShareUpdate) -> Awaitable[None] | None:
        """Apply an update. Raises KafkaError without changing the state."""
        shard = self._shard(key)
        before = shard.get(key)
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
            pending = self._append(shard, key, *records)
        except KafkaError:
            state.leader_epoch, state.delivery_complete = epochs
            raise
        if needs_snapshot:
            shard.states[key] = state
        else:
            state.put(update.start_offset, update.delivery_complete, update.batches)
            state.updates += 1
        return pending

    def delete(self, key: ShareKey) -> Awaitable[None] | None:
        """Delete the state. Missing state counts as deleted."""
        shard = self._shard(key)
        state = shard.states.pop(key, None)
        if state is None:
            return self._committed(shard)
        try:
            return self._append(shard, key, tombstone(key))
        except KafkaError:
            shard.states[key] = state
            raise

    def delete_topics(self, topic_ids: set[bytes]) -> list[Awaitable[None]]:
        """Delete the local states of these topics; other brokers delete their own."""
        gone = [
            key
            for shard in self.runtime
            if not shard.loading
            for key in shard.states
            if key.topic_id in topic_ids
        ]
        return [pending for key in gone if (pending := self.delete(key)) is not None]

    # Internals

    def _shard(self, key: ShareKey) -> ShareShard:
        try:
            return self.runtime.shard_of(coordinator_key(key))
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_COORDINATOR:
                raise
            partition = partition_of(key, self.runtime.partition_count)
            raise KafkaError(
                error.code,
                f"Another broker keeps the state of this share-partition ({self.runtime.topic}-{partition}).",
            ) from None

    def _append(self, shard: ShareShard, key: ShareKey, *records: KeyValue) -> Awaitable[None] | None:
        pending = self.runtime.append(shard, records)
        if records[-1][0][:2] != SNAPSHOT_KEY:
            return pending
        offset = self._log.end_offset(shard.partition) - 1
        if pending is not None:
            return self._prune_when_replicated(pending, shard, key, offset)
        self._prune(shard, key, offset)
        return None

    async def _prune_when_replicated(
        self, pending: Awaitable[None], shard: ShareShard, key: ShareKey, offset: int
    ) -> None:
        await pending
        if self.runtime.is_current(shard):
            self._prune(shard, key, offset)

    def _prune(self, shard: ShareShard, key: ShareKey, offset: int) -> None:
        """Delete records before the latest snapshots of all share-partitions, after a snapshot was replicated."""
        shard.snapshot_at(key, offset)
        try:
            self._log.delete_before(shard.partition, min(shard.snapshots.values(), default=offset + 1))
        except KafkaError as error:
            log.info(
                "Could not delete old records of %s-%d: %s", SHARE_GROUP_STATE_TOPIC, shard.partition, error
            )

    def _committed(self, shard: ShareShard) -> Awaitable[None] | None:
        """Wait until the in-memory state is replicated, so that any later coordinator knows it."""
        try:
            pending = self._log.wait_committed(shard.partition)
        except KafkaError as error:
            raise append_error(error) from error
        return None if pending is None else replicated(pending)

    async def _when_committed(self, pending: Awaitable[None], key: ShareKey) -> ShareState:
        await pending
        return self.get(key)


def partition_of(key: ShareKey, partitions: int) -> int:
    return partition_for(coordinator_key(key), partitions)
