"""The share coordinator, and the records of `__share_group_state`."""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from ottla.coordinator.runtime import (
    CoordinatorRuntime,
    CoordinatorShard,
    KeyValue,
    StateLog,
    append_error,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    partition_for,
    replicated,
)
from ottla.coordinator.share.share_partition import DeliveryState, StateBatch, merged
from ottla.metadata.nodes import SHARE_GROUP_STATE_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_records import (
    SharePartitionKey,
    ShareSnapshotValue,
    ShareUpdateValue,
    StateBatchValue,
)
from ottla.protocol.records import BatchHeader, Record

# Records of share-partitions in `__share_group_state`, byte for byte as in Kafka.
#
# A snapshot carries the full state; updates carry changes since the last snapshot. After a configured number of updates
# the coordinator writes a new snapshot. A snapshot with a null value is a tombstone.

SNAPSHOT = 0
UPDATE = 1
SNAPSHOT_KEY = SNAPSHOT.to_bytes(2, "big")
_WIDEST_BATCH = 1_000_000
# No member has fetched yet: `share.auto.offset.reset` sets the start offset.
UNINITIALIZED = -1


class ShareKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int


@dataclass(slots=True)
class ShareState:
    """Stored state of one share-partition."""

    state_epoch: int
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED
    delivery_complete: int = -1
    snapshot_epoch: int = 0
    created_ms: int = 0
    written_ms: int = 0
    updates: int = 0
    records: dict[int, tuple[int, int]] = field(default_factory=dict)

    def batches(self) -> list[StateBatch]:
        return list(merged((o, *self.records[o]) for o in sorted(self.records)))

    def put(self, start_offset: int, delivery_complete: int, batches: Iterable[StateBatch]) -> None:
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                self.records[offset] = (state, count)
        if start_offset >= 0:
            self.start_offset = start_offset
            for offset in [offset for offset in self.records if offset < start_offset]:
                del self.records[offset]
        self.delivery_complete = delivery_complete


def coordinator_key(key: ShareKey) -> str:
    """Return the key that selects the state topic partition; FindCoordinator uses the same key."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def snapshot_record(key: ShareKey, state: ShareState) -> KeyValue:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_values(state.batches()),
    )
    return _key(SNAPSHOT, key), encode_value(value)


def update_record(key: ShareKey, state: ShareState, start_offset: int, batches: list[StateBatch]) -> KeyValue:
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=state.delivery_complete,
        state_batches=_values(batches),
    )
    return _key(UPDATE, key), encode_value(value)


def tombstone(key: ShareKey) -> KeyValue:
    return _key(SNAPSHOT, key), None


def apply(states: dict[ShareKey, ShareState], key: bytes, value: bytes | None) -> ShareKey | None:
    """Apply a record; return its key if it was a snapshot. Raises ValueError if malformed."""
    kind = int.from_bytes(key[:2], "big")
    named = decode_key(SharePartitionKey, key)
    share_key = ShareKey(named.group_id, named.topic_id, named.partition)
    if kind == SNAPSHOT:
        if value is None:
            states.pop(share_key, None)
            return share_key
        snapshot = decode_value(ShareSnapshotValue, value)
        state = ShareState(
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot_epoch=snapshot.snapshot_epoch,
            created_ms=snapshot.create_timestamp,
            written_ms=snapshot.write_timestamp,
        )
        state.put(
            snapshot.start_offset, snapshot.delivery_complete_count, state_batches(snapshot.state_batches)
        )
        states[share_key] = state
        return share_key
    if kind == UPDATE and value is not None and share_key in states:
        update = decode_value(ShareUpdateValue, value)
        state = states[share_key]
        state.leader_epoch = update.leader_epoch
        state.updates += 1
        state.put(update.start_offset, update.delivery_complete_count, state_batches(update.state_batches))
    return None


def _key(kind: int, key: ShareKey) -> bytes:
    return encode_key(
        kind, SharePartitionKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    )


def _values(batches: Iterable[StateBatch]) -> list[StateBatchValue]:
    return [
        StateBatchValue(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


class BatchValue(Protocol):
    """Fields of a batch, common to records and messages."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def state_batches(values: Iterable[BatchValue]) -> Iterable[StateBatch]:
    """Raises ValueError for batches that no leader would write."""
    known = (
        DeliveryState.AVAILABLE,
        DeliveryState.ACKNOWLEDGED,
        DeliveryState.ARCHIVING,
        DeliveryState.ARCHIVED,
    )
    for value in values:
        if value.delivery_state not in known:
            raise ValueError(f"delivery state {value.delivery_state} is not known")
        if value.first_offset < 0 or not 0 <= value.last_offset - value.first_offset < _WIDEST_BATCH:
            raise ValueError(f"offsets {value.first_offset} to {value.last_offset} are no batch")
        yield StateBatch(value.first_offset, value.last_offset, value.delivery_state, value.delivery_count)


# The share coordinator: state of share-partitions, in memory and in `__share_group_state`.

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
