"""Records of share-partitions in `__share_group_state`, byte for byte as in Kafka.

A snapshot carries the full state; updates carry changes since the last snapshot. After a configured number of updates
the coordinator writes a new snapshot. A snapshot with a null value is a tombstone.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.coordinator.runtime.record_codec import decode_key, decode_value, encode_key, encode_value
from ottla.coordinator.runtime.state_log import KeyValue
from ottla.coordinator.share.share_partition import DeliveryState, StateBatch, merged
from ottla.protocol.internal_records import (
    SharePartitionKey,
    ShareSnapshotValue,
    ShareUpdateValue,
    StateBatchValue,
)

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
    known = (DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
    for value in values:
        if value.delivery_state not in known:
            raise ValueError(f"delivery state {value.delivery_state} is not known")
        if value.first_offset < 0 or not 0 <= value.last_offset - value.first_offset < _WIDEST_BATCH:
            raise ValueError(f"offsets {value.first_offset} to {value.last_offset} are no batch")
        yield StateBatch(value.first_offset, value.last_offset, value.delivery_state, value.delivery_count)
