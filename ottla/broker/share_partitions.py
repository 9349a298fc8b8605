"""The partitions that share groups read from this broker: records handed out, locks that run, state that is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.coordinator.share_partition import (
    Acknowledgement,
    AcquiredBatch,
    DeliveryState,
    SharePartition,
    StateBatch,
)
from ottla.coordinator.share_state import UNINITIALIZED, ShareKey
from ottla.coordinator.share_state_store import ShareStateStore
from ottla.metadata.group_configs import (
    AUTO_OFFSET_RESET,
    ISOLATION_LEVEL,
    RECORD_LOCK_DURATION,
    parse_offset_reset,
)
from ottla.protocol.batch_header import BatchHeader, read_header
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.partition import Partition
    from ottla.log.transaction_index import AbortedTransaction

# What a lock timeout could not write is tried again after this.
_RETRY_SECONDS = 1.0
_BATCH_OVERHEAD = 61


class FreedWaiter(Protocol):
    def freed(self) -> None:
        """Records that were locked are free again."""


class Handed(NamedTuple):
    records: bytes
    acquired: list[AcquiredBatch]


class LiveSharePartition:
    """A share-partition whose state is written before anybody sees a change of it. Owner: the event loop."""

    def __init__(self, broker: Broker, states: ShareStateStore, key: ShareKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.waiters: set[FreedWaiter] = set()
        self._broker = broker
        self._states = states
        self._timer: asyncio.TimerHandle | None = None
        self.origin = states.get(key)
        self.share = self._read_state()

    def is_current(self, partition: Partition) -> bool:
        """Neither the partition nor the state has been exchanged for another since."""
        return self.partition is partition and self.origin is self._states.get(self.key)

    @property
    def lock_ms(self) -> int:
        own = self._group_config(RECORD_LOCK_DURATION)
        return int(own) if own else self._broker.config.get_int("group.share.record.lock.duration.ms")

    def hand_out(self, member_id: str, max_bytes: int, most: int, *, min_one: bool) -> Handed:
        """Lock records for a member, and return the batches that they are in."""
        share, log = self.share, self.partition.log
        share.log_starts_at(log.log_start_offset)
        committed_only = self._group_config(ISOLATION_LEVEL) == "read_committed"
        upto = self.partition.last_stable_offset if committed_only else self.partition.high_watermark
        most = min(most, self._lock_limit - share.locked)
        first = share.next_offset
        if most <= 0 or first >= upto:
            return Handed(b"", [])
        region = log.read(first, max_bytes, upto=upto, min_one=min_one)
        data = region.read()
        aborted = log.aborted_transactions(first, region) if committed_only else []
        archived: list[StateBatch] = []
        deadline_ms = self._broker.now_ms() + self.lock_ms
        acquired: list[AcquiredBatch] = []
        position = end = 0
        while most > 0 and position + _BATCH_OVERHEAD <= len(data):
            header = read_header(data, position)
            position += header.size
            if position > len(data):
                break  # a slice may end inside a batch
            if not share.skip_to(header.base_offset):
                break
            begin, first = first, header.next_offset
            if aborted and _is_aborted(header, aborted):
                archived += share.archive(begin, header.last_offset)
                continue
            taken = share.acquire(member_id, begin, header.last_offset, most, deadline_ms)
            if taken:
                most -= sum(batch.last - batch.first + 1 for batch in taken)
                acquired += taken
                end = position
        self._write(archived)
        if acquired:
            self._watch_locks()
        return Handed(data[:end], acquired)

    def acknowledge(self, member_id: str, batches: Sequence[Acknowledgement]) -> None:
        """Raises KafkaError with nothing changed for records that are not this member's."""
        changed = self.share.acknowledge(
            member_id, batches, self._count_limit, self._broker.now_ms() + self.lock_ms
        )
        self._write(changed)

    def release(self, member_id: str) -> None:
        self._write(self.share.release(member_id, self._count_limit))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Steps

    @property
    def _count_limit(self) -> int:
        return self._broker.config.get_int("group.share.delivery.count.limit")

    @property
    def _lock_limit(self) -> int:
        return self._broker.config.get_int("group.share.partition.max.record.locks")

    def _group_config(self, name: str) -> str | None:
        return self._broker.image.group_configs.get(self.key.group_id, {}).get(name)

    def _read_state(self) -> SharePartition:
        state = self._states.get(self.key)
        if state is None or state.start_offset == UNINITIALIZED:
            return SharePartition(self._first_offset())
        return SharePartition(state.start_offset, state.batches())

    def _first_offset(self) -> int:
        reset = parse_offset_reset(self._group_config(AUTO_OFFSET_RESET) or "latest")
        log = self.partition.log
        if reset == "earliest":
            return log.log_start_offset
        if isinstance(reset, int):
            found = log.offset_for_timestamp(self._broker.now_ms() - reset, self.partition.high_watermark)
            if found is not None:
                return found[0]
        return self.partition.high_watermark

    def _write(self, changed: list[StateBatch]) -> None:
        if not changed:
            return
        share = self.share
        was_full = share.locked + sum(b.last - b.first + 1 for b in changed) >= self._lock_limit
        try:
            self._states.write(
                self.key, self.partition.leader_epoch, share.start_offset, share.delivery_complete, changed
            )
        except KafkaError:
            # Back to what is written: every lock is lost, and nothing that was acknowledged before is.
            self.share = self._read_state()
            raise
        share.settle()
        self._watch_locks()
        if was_full or any(batch.state == DeliveryState.AVAILABLE for batch in changed):
            for waiter in tuple(self.waiters):
                waiter.freed()

    def _watch_locks(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.share.next_deadline()
        if deadline_ms is not None:
            delay = max(deadline_ms - self._broker.now_ms(), 0) / 1000
            self._timer = self._broker.loop.call_later(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        try:
            self._write(self.share.expire(self._broker.now_ms(), self._count_limit))
        except KafkaError:
            self._timer = self._broker.loop.call_later(_RETRY_SECONDS, self._expire)
            return
        self._watch_locks()


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )


class SharePartitions:
    """The share-partitions in use, by key. Owner: the event loop."""

    def __init__(self, broker: Broker, states: ShareStateStore) -> None:
        self._broker = broker
        self._states = states
        self._live: dict[ShareKey, LiveSharePartition] = {}

    def get(self, group_id: str, topic_id: bytes, index: int) -> LiveSharePartition:
        """Raises KafkaError for a partition that this broker does not lead."""
        partition = self._broker.replicas.leader_by_id(topic_id, index)
        key = ShareKey(group_id, topic_id, index)
        live = self._live.get(key)
        if live is None or not live.is_current(partition):
            if live is not None:
                self._live.pop(key).close()
            if self._states.get(key) is None:
                # The heartbeat that subscribes begins to keep the state; who comes before it waits.
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            live = self._live[key] = LiveSharePartition(self._broker, self._states, key, partition)
        return live

    def known(self, group_id: str, topic_id: bytes, index: int) -> LiveSharePartition | None:
        return self._live.get(ShareKey(group_id, topic_id, index))

    def forget(self, group_id: str, topic_id: bytes | None = None) -> None:
        """The state was set from outside: the next fetch reads it anew."""
        for key in [k for k in self._live if k.group_id == group_id and topic_id in (None, k.topic_id)]:
            self._live.pop(key).close()

    def forget_topic(self, topic_id: bytes) -> None:
        for key in [k for k in self._live if k.topic_id == topic_id]:
            self._live.pop(key).close()

    def close(self) -> None:
        for live in self._live.values():
            live.close()
