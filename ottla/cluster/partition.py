"""One partition as this broker holds it: its log, its role, its leader epoch and how far it is committed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ottla.cluster.replication.commit_queue import CommitFuture
from ottla.cluster.replication.leader_state import LeaderContext, LeaderState
from ottla.cluster.topic_counts import TopicCounts
from ottla.log.errors import StorageError
from ottla.log.partition_log import AppendInfo, PartitionLog
from ottla.metadata.cluster_image import PartitionImage
from ottla.protocol.batch_header import BATCH_OVERHEAD, read_header
from ottla.protocol.end_txn_marker import MARKER_BYTES
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

NO_LEADER = -1
_COUNTED_APPENDS = 1000


class Waiter(Protocol):
    """Something that waits for more committed bytes; called in the turn in which they are committed."""

    def grew(self, partition: Partition, count: int) -> None:
        """So many bytes more are committed."""

    def changed(self) -> None:
        """The partition is gone from here: there is nothing left to wait for."""


class Watcher(Protocol):
    """A follower's view of a partition that this broker leads."""

    def appended(self) -> None:
        """The log has grown, or starts at another offset; followers fetch what is not committed, too."""

    def committed(self) -> None:
        """The high watermark has moved."""

    def changed(self) -> None:
        """The partition is no longer led here, or in another epoch."""


class Partition:
    """The broker's replica of a partition.

    Invariant: log start offset ≤ high watermark ≤ log end offset, and consumers see nothing at or above the high
    watermark. `leading` is there exactly while this broker leads and there are followers to wait for; without it what
    is written is committed. Owner: the event loop.
    """

    __slots__ = (
        "_context",
        "_uncommitted",
        "_waiters",
        "broker_id",
        "bytes_in",
        "counts",
        "high_watermark",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "leading",
        "led_from",
        "log",
        "on_storage_error",
        "partition_epoch",
        "produces",
        "replicas",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        broker_id: int,
        log: PartitionLog,
        context: LeaderContext,
        high_watermark: int = 0,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.broker_id = broker_id
        self.log = log
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.leading: LeaderState | None = None
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.watchers: set[Watcher] = set()
        self._context = context
        self._waiters: set[Waiter] = set()
        # End offset and size of what is written and not committed, for those who wait for so many bytes.
        self._uncommitted: deque[tuple[int, int]] = deque()
        self.on_storage_error: Callable[[PartitionLog, KafkaError], object] | None = None
        self.counts: TopicCounts | None = None  # if there are metrics
        # What was written here as the leader and is not in `counts` yet.
        self.produces = 0
        self.bytes_in = 0
        self.led_from = -1  # the log end offset when this broker began to lead, while it leads

    def __repr__(self) -> str:
        return f"<{self.topic}-{self.index} led by {self.leader} in epoch {self.leader_epoch}>"

    # Roles

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    def become_leader(self, state: PartitionImage) -> bool:
        """Lead as the state says; whether that begins a leader epoch."""
        begins = self.leader != self.broker_id or state.leader_epoch > self.leader_epoch
        if begins and not _is_new(state):  # that of new ones is logged for the topic as a whole
            self._say(
                "Leader in epoch %d from offset %d on, with high watermark %d and ISR %s",
                state.leader_epoch,
                self.log.log_end_offset,
                self.high_watermark,
                shown_isr(state.isr),
            )
        elif not begins and set(state.isr) != set(self.isr):
            self._say("ISR is %s, it was %s", shown_isr(state.isr), shown_isr(self.isr))
        self._take_state(state)
        before = self.leading
        if begins:
            self._lead_from(self.log.log_end_offset)
            self.leading = None
            self.log.start_epoch(state.leader_epoch)
        if all(broker_id == self.broker_id for broker_id in state.replicas):
            self.leading = None
            self.advance_high_watermark(self.log.log_end_offset)
            if before is not None:
                before.settle_alone()
        elif self.leading is not None:
            self.leading.learn(state)
        else:
            self.leading = LeaderState(self, state, self._context, before)
            self.leading.check()
        if begins:
            self.tell_changed()
        return begins

    def become_follower(self, state: PartitionImage) -> bool:
        """Follow the leader of the state, or nobody if it has none; whether that is new."""
        changed = state.leader != self.leader or state.leader_epoch != self.leader_epoch
        if changed and state.leader == NO_LEADER:
            self._say("Nobody leads since epoch %d", state.leader_epoch)
        elif changed and not _is_new(state):
            self._say(
                "Follower of broker %d in epoch %d, from offset %d on",
                state.leader,
                state.leader_epoch,
                self.log.log_end_offset,
            )
        self._take_state(state)
        self._lead_from(-1)
        if self.leading is not None:
            self.leading.close()
            self.leading = None
        if changed:
            self.tell_changed()
        return changed

    def _say(self, message: str, *arguments: object) -> None:
        if logger.isEnabledFor(logging.INFO):  # thousands of partitions may change at once
            logger.info(
                "[Partition %s-%d broker=%d] " + message, self.topic, self.index, self.broker_id, *arguments
            )

    def _take_state(self, state: PartitionImage) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.replicas = state.replicas
        self.isr = state.isr
        self.partition_epoch = state.partition_epoch

    def resign(self) -> None:
        """The partition leaves this broker, or its log is out of reach."""
        self.leader = NO_LEADER
        self._lead_from(-1)
        if self.leading is not None:
            self.leading.close()
            self.leading = None
        self.tell_changed()

    def _lead_from(self, offset: int) -> None:
        counts = self.counts
        if counts is not None:
            counts.messages_in += self.messages_in
            counts.produces += self.produces
            counts.bytes_in += self.bytes_in
        self.produces = self.bytes_in = 0
        self.led_from = offset

    @property
    def messages_in(self) -> int:
        """Written here since this broker leads: the offsets count them, so nobody else has to."""
        return self.log.log_end_offset - self.led_from if self.led_from >= 0 else 0

    def check_epoch(self, current_leader_epoch: int) -> None:
        """What a client believes of the leader's epoch (KIP-320); -1 is no belief."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # Leading

    def append(
        self, records: Any, now_ms: int, *, from_client: bool = True, inspected: bool = False
    ) -> AppendInfo:
        """Write one batch as the leader, and notify waiting fetches. Raises InspectionNeeded."""
        if self.leader != self.broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            info = self.log.append(
                records,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                from_client=from_client,
                inspected=inspected,
            )
        except StorageError as error:
            self.storage_failed(error)
            raise
        self._appended(info, len(records))
        return info

    def append_mirrored(self, records: Any, log_start_offset: int) -> None:
        """Write batches of another cluster's log as they are there, and forget what is gone there.

        If that log starts behind the end of this one, this one begins there anew.
        """
        if self.leader != self.broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if log_start_offset > log.log_end_offset:
            self.truncate_fully_and_start_at(log_start_offset)
        if len(records):
            before = log.log_end_offset
            if before == log.log_start_offset and len(records) >= BATCH_OVERHEAD:
                first = read_header(records)
                if first.base_offset < before <= first.last_offset:
                    self.truncate_fully_and_start_at(first.base_offset)
                    before = first.base_offset
            try:
                info = log.replicated.append_mirrored(records)
            except StorageError as error:
                self.storage_failed(error)
                raise
            info.first_offset = before
            self._appended(info, len(records))
        log_start_offset = min(log_start_offset, self.high_watermark)
        if log_start_offset > log.log_start_offset:
            self.delete_records(log_start_offset)

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
        """End a producer's transaction in this partition, and notify consumers that wait for it."""
        if self.leader != self.broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            info = self.log.append_marker(
                producer_id,
                producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                transaction_version=transaction_version,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
            )
        except StorageError as error:
            self.storage_failed(error)
            raise
        self._appended(info, MARKER_BYTES)
        self.log.producers.first_unstable_offset(self.high_watermark)  # forgets those that have ended
        return info

    def _appended(self, info: AppendInfo, size: int) -> None:
        leading = self.leading
        self.produces += 1
        self.bytes_in += size
        if leading is None:
            self.high_watermark = self.log.log_end_offset
            if self._waiters:
                for waiter in tuple(self._waiters):
                    waiter.grew(self, size)
        elif not info.duplicate:
            self._count(size)
            leading.appended(info.first_offset)
            for watcher in self.watchers:
                watcher.appended()

    def check_min_isr(self) -> None:
        """Refuse acks=all while there are fewer in-sync replicas than min.insync.replicas."""
        if self.leading is not None and self.leading.is_below_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def wait_committed(self, offset: int) -> asyncio.Future[None] | None:
        """Ends when everything below `offset` is committed, or with a KafkaError; None if it is already.

        Only the leader knows: a follower may have other records at these offsets by now.
        """
        if self.leader != self.broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.leading is None or self.high_watermark >= offset:
            return None
        waiter = CommitFuture()
        self.leading.commits.add(offset, waiter, None)
        return waiter.future

    def delete_records(self, offset: int) -> int:
        """Forget everything before `offset` (-1: before the high watermark); returns the new log start offset."""
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.advance_log_start_offset(offset)
        for watcher in self.watchers:
            watcher.appended()  # followers should learn of it at once
        return self.log.log_start_offset

    # Following

    def append_from_leader(self, records: memoryview) -> None:
        """Write what the leader sent from the log end offset on."""
        log = self.log
        try:
            before = log.log_end_offset
            if before == log.log_start_offset and len(records) >= BATCH_OVERHEAD:
                first = read_header(records)
                if first.base_offset < before <= first.last_offset:
                    # The leader's log starts in the middle of a batch, because the records before it were deleted.
                    log.truncate_fully_and_start_at(first.base_offset)
            log.replicated.append(records)
        except StorageError as error:
            self.storage_failed(error)
            raise
        if log.log_end_offset > before:
            self._count(len(records))
            if self.counts is not None:
                self.counts.replicated_in += len(records)

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        """Take over what the leader says of its high watermark and log start; whether the log starts later now."""
        log = self.log
        self.advance_high_watermark(min(high_watermark, log.log_end_offset))
        if log_start_offset > log.log_start_offset:
            self._change_log(log.advance_log_start_offset, min(log_start_offset, log.log_end_offset))
            self.high_watermark = max(self.high_watermark, log.log_start_offset)
            return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Remove what the leader does not have; for where that is see `replication.truncation`."""
        if offset < self.log.log_end_offset:
            self._say("Truncating from offset %d to %d", self.log.log_end_offset, offset)
        self._change_log(self.log.truncate_to, offset)
        self._truncated()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._change_log(self.log.truncate_fully_and_start_at, offset)
        self._truncated()

    def _change_log(self, change: Callable[[int], object], offset: int) -> None:
        try:
            change(offset)
        except StorageError as error:
            self.storage_failed(error)
            raise

    def _truncated(self) -> None:
        end_offset = self.log.log_end_offset
        self.high_watermark = max(min(self.high_watermark, end_offset), self.log.log_start_offset)
        self._uncommitted.clear()

    # How far it is committed

    def advance_high_watermark(self, offset: int) -> None:
        """Never backwards: what was committed stays committed, even if a new leader does not know that yet."""
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        size, uncommitted = 0, self._uncommitted
        while uncommitted and uncommitted[0][0] <= offset:
            size += uncommitted.popleft()[1]
        for watcher in self.watchers:
            watcher.committed()
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.grew(self, size or 1)

    def _count(self, size: int) -> None:
        uncommitted = self._uncommitted
        if len(uncommitted) >= _COUNTED_APPENDS:
            size += uncommitted.pop()[1]
        uncommitted.append((self.log.log_end_offset, size))

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended: as far as read_committed consumers get."""
        first = self.log.producers.first_unstable_offset(self.high_watermark)
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log.log_start_offset)

    def storage_failed(self, error: KafkaError) -> None:
        if self.on_storage_error is not None:
            self.on_storage_error(self.log, error)

    # Waiting

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    @property
    def waiters(self) -> Iterable[Waiter]:
        return self._waiters

    def add_waiter(self, waiter: Waiter) -> None:
        self._waiters.add(waiter)

    def tell_changed(self) -> None:
        for watcher in tuple(self.watchers):
            watcher.changed()
        for waiter in tuple(self._waiters):
            waiter.changed()

    def remove_waiter(self, waiter: Waiter) -> None:
        self._waiters.discard(waiter)


def _is_new(state: PartitionImage) -> bool:
    return state.leader_epoch == 0 and state.partition_epoch == 0


def shown_isr(isr: Iterable[int]) -> str:
    return f"[{','.join(map(str, isr))}]"
