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

    def get(self, key: ShareKey) -> ShareState | None:
        """None too while another broker keeps it: who then begins anew is refused."""
        if not self.partition_count:
            return None
        shard = self._shards.get(self._partition_of(key))
        return None if shard is None or shard.loading else shard.states.get(key)

    def keys(self, group_id: str) -> list[ShareKey]:
        return sorted(key for key in self._all_keys() if key.group_id == group_id)

    def _all_keys(self) -> list[ShareKey]:
        return [key for shard in self._shards.values() if not shard.loading for key in shard.states]

    def _partition_of(self, key: ShareKey) -> int:
        name = coordinator_key(key, base64.urlsafe_b64encode(key.topic_id).decode().rstrip("="))
        return partition_for(name, self.partition_count)

    def _shard(self, key: ShareKey) -> tuple[int, _Shard]:
        if not self.partition_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        partition = self._partition_of(key)
        shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"Another broker keeps the state of this share-partition (__share_group_state-{partition}).",
            )
        if shard.loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return partition, shard

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int = -1) -> None:
        """Begin anew, at that offset. What was known before is forgotten."""
        now_ms = self._clock()
        states = self._shard(key)[1].states
        before = states.get(key)
        state = ShareState(state_epoch, start_offset=start_offset, created_ms=now_ms, written_ms=now_ms)
        if start_offset >= 0:
            state.delivery_complete = 0
        if before is not None:
            state.snapshot_epoch = before.snapshot_epoch + 1
            state.leader_epoch = before.leader_epoch
        states[key] = state
        try:
            self._append(key, snapshot_record(key, state))
        except KafkaError:
            if before is None:
                del states[key]
            else:
                states[key] = before
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
        states = self._shard(key)[1].states
        if key not in states:
            self.initialize(key, 0)
        state = states[key]
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
            if self.get(key) is None:
                continue
            states = self._shard(key)[1].states
            state = states.pop(key)
            try:
                self._append(key, tombstone(key))
            except KafkaError:
                states[key] = state
                raise

    def delete_topics(self, topic_ids: set[bytes]) -> None:
        self.delete([key for key in self._all_keys() if key.topic_id in topic_ids])

    def _append(self, key: ShareKey, record: KeyValue) -> None:
        partition, shard = self._shard(key)
        try:
            self._log.append(partition, [record], self._clock())
            if record[0][:2] == SNAPSHOT_KEY:
                end = self._log.end_offset(partition)
                shard.snapshot_at(key, end - 1)
                self._log.delete_before(partition, min(shard.snapshots.values(), default=end))
        except KafkaError as error:
            raise KafkaError(append_error(error.code), error.message) from error
