"""One partition as this broker holds it: its log, its leader epoch and how far it is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.log.errors import StorageError
from ottla.log.partition_log import AppendInfo, PartitionLog
from ottla.protocol.end_txn_marker import MARKER_BYTES
from ottla.protocol.errors import ErrorCode, KafkaError

NO_LEADER = -1


class Waiter(Protocol):
    """Something that waits for more committed bytes; told in the turn in which it happens."""

    def grew(self, partition: Partition, count: int) -> None:
        """So many bytes more are committed."""

    def changed(self) -> None:
        """The partition is gone from here: there is nothing left to wait for."""


class Partition:
    """The broker's replica of a partition.

    Invariant: log start offset ≤ high watermark ≤ log end offset, and consumers see nothing at or above the high
    watermark. Owner: the event loop.
    """

    __slots__ = (
        "_waiters",
        "broker_id",
        "high_watermark",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "on_storage_error",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, broker_id: int, log: PartitionLog) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.broker_id = broker_id
        self.log = log
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = 0
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.high_watermark = log.log_start_offset
        self._waiters: set[Waiter] = set()
        self.on_storage_error: Callable[[PartitionLog, StorageError], object] | None = None

    def become_leader(self, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        self.leader = self.broker_id
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.isr = isr
        self.log.start_epoch(leader_epoch)
        self._advance()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    def check_epoch(self, current_leader_epoch: int) -> None:
        """What a client believes of the leader's epoch (KIP-320); -1 is no belief."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def append(self, records: Any, now_ms: int, *, from_client: bool = True) -> AppendInfo:
        """Write one batch as the leader and let those who wait know."""
        if self.leader != self.broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            info = self.log.append(
                records, leader_epoch=self.leader_epoch, now_ms=now_ms, from_client=from_client
            )
        except StorageError as error:
            self.storage_failed(error)
            raise
        self._advance()
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.grew(self, len(records))
        return info

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        now_ms: int,
    ) -> AppendInfo:
        """End a producer's transaction here; consumers that wait for it are told."""
        if self.leader != self.broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        info = self.log.append_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
        )
        self._advance()
        self.log.producers.first_unstable_offset(self.high_watermark)  # forgets those that have ended
        for waiter in tuple(self._waiters):
            waiter.grew(self, MARKER_BYTES)
        return info

    def _advance(self) -> None:
        """Alone in the ISR, what is written is committed."""
        self.high_watermark = self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended: as far as read_committed consumers get."""
        first = self.log.producers.first_unstable_offset(self.high_watermark)
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log.log_start_offset)

    def delete_records(self, offset: int) -> int:
        """Forget everything before `offset` (-1: before the high watermark); returns the new log start offset."""
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.advance_log_start_offset(offset)
        return self.log.log_start_offset

    def storage_failed(self, error: StorageError) -> None:
        if self.on_storage_error is not None:
            self.on_storage_error(self.log, error)

    # Waiting

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def tell_changed(self) -> None:
        for waiter in tuple(self._waiters):
            waiter.changed()

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)
