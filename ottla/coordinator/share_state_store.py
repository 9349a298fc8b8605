"""The share coordinator: keeps the state of share-partitions, in memory and in `__share_group_state`."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from ottla.coordinator.share_partition import StateBatch
from ottla.coordinator.share_state import (
    SNAPSHOT_KEY,
    ShareKey,
    ShareState,
    apply,
    coordinator_key,
    snapshot_record,
    tombstone,
    update_record,
)
from ottla.coordinator.state_log import KeyValue, StateLog, append_error, partition_for
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class PrunableLog(StateLog, Protocol):
    def end_offset(self, partition: int) -> int: ...

    def delete_before(self, partition: int, offset: int) -> None: ...


class ShareStateStore:
    """Invariant: what is in memory is what the log says. Owned by the event loop.

    One broker leads every partition of the topic, so an append is durable when it returns.
    """

    def __init__(
        self, state_log: PrunableLog, clock: Callable[[], int], updates_per_snapshot: int = 500
    ) -> None:
        self._log = state_log
        # By partition of the topic: where the latest snapshot of each share-partition is. What lies before all of
        # them is not needed any more.
        self._snapshots: dict[int, dict[ShareKey, int]] = {}
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[ShareKey, ShareState] = {}
        self.partition_count = 0

    async def load(self, partitions: Iterable[int]) -> None:
        found = list(partitions)
        for partition in found:
            async for _, records in self._log.read(partition):
                for record in records:
                    try:
                        key = apply(self._states, record.key or b"", record.value)
                        if key is not None:
                            self._snapshot_at(partition, key, record.offset)
                    except ValueError as error:
                        log.warning("record %d of __share_group_state is left out: %s", record.offset, error)
        self.partition_count = len(found)

    def get(self, key: ShareKey) -> ShareState | None:
        return self._states.get(key)

    def keys(self, group_id: str) -> list[ShareKey]:
        return sorted(key for key in self._states if key.group_id == group_id)

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int = -1) -> None:
        """Begin anew, at that offset. What was known before is forgotten."""
        now_ms = self._clock()
        before = self._states.get(key)
        state = ShareState(state_epoch, start_offset=start_offset, created_ms=now_ms, written_ms=now_ms)
        if start_offset >= 0:
            state.delivery_complete = 0
        if before is not None:
            state.snapshot_epoch = before.snapshot_epoch + 1
            state.leader_epoch = before.leader_epoch
        self._states[key] = state
        try:
            self._append(key, snapshot_record(key, state))
        except KafkaError:
            if before is None:
                del self._states[key]
            else:
                self._states[key] = before
            raise

    def write(
        self,
        key: ShareKey,
        leader_epoch: int,
        start_offset: int,
        delivery_complete: int,
        batches: list[StateBatch],
    ) -> None:
        """Raises KafkaError with nothing changed."""
        state = self._states.get(key)
        if state is None:
            self.initialize(key, 0)
            state = self._states[key]
        before = (state.leader_epoch, state.delivery_complete)
        state.leader_epoch, state.delivery_complete = leader_epoch, delivery_complete
        try:
            self._append(key, update_record(key, state, start_offset, batches))
        except KafkaError:
            state.leader_epoch, state.delivery_complete = before
            raise
        state.put(start_offset, delivery_complete, batches)
        state.updates += 1
        if state.updates >= self._updates_per_snapshot:
            state.updates = 0
            state.snapshot_epoch += 1
            state.written_ms = self._clock()
            self._append(key, snapshot_record(key, state))

    def delete(self, keys: Iterable[ShareKey]) -> None:
        for key in keys:
            if key in self._states:
                state = self._states.pop(key)
                try:
                    self._append(key, tombstone(key))
                except KafkaError:
                    self._states[key] = state
                    raise

    def delete_topics(self, topic_ids: set[bytes]) -> None:
        self.delete([key for key in self._states if key.topic_id in topic_ids])

    def _append(self, key: ShareKey, record: KeyValue) -> None:
        if not self.partition_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        name = coordinator_key(key, base64.urlsafe_b64encode(key.topic_id).decode().rstrip("="))
        partition = partition_for(name, self.partition_count)
        try:
            self._log.append(partition, [record], self._clock())
            if record[0][:2] == SNAPSHOT_KEY:
                self._snapshot_at(partition, key, self._log.end_offset(partition) - 1)
                self._prune(partition)
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error

    def _snapshot_at(self, partition: int, key: ShareKey, offset: int) -> None:
        snapshots = self._snapshots.setdefault(partition, {})
        if key in self._states:
            snapshots[key] = offset
        else:
            snapshots.pop(key, None)

    def _prune(self, partition: int) -> None:
        end = self._log.end_offset(partition)
        self._log.delete_before(partition, min(self._snapshots[partition].values(), default=end))
