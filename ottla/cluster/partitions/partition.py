"""A partition on this broker: log, role, leader epoch and high watermark."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ottla.cluster.partitions.leader_state import LeaderContext, LeaderState
from ottla.cluster.partitions.purgatory import DelayedOperation, Purgatory, Watcher
from ottla.cluster.partitions.topic_counts import TopicCounts
from ottla.log.config import StorageError
from ottla.log.partition_log import AppendInfo, PartitionLog
from ottla.metadata.cluster_image import PartitionImage
from ottla.protocol.batch_header import BATCH_OVERHEAD, read_header
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import MARKER_BYTES

logger = logging.getLogger(__name__)

NO_LEADER = -1
_COUNTED_APPENDS = 1000


class Partition:
    """This broker's replica of a partition.

    Invariant: log start offset ≤ high watermark ≤ log end offset; consumers see nothing at or above the high watermark.
    `leading` is set exactly while this broker leads and has followers to wait for. Without it every write is committed
    at once. Owner: the event loop.
    """

    __slots__ = (
        "_context",
        "_uncommitted",
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
        "watches_end",
        "watches_high_watermark",
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
        self._context = context
        # Keys of the purgatory; `LeaderState` has those of produce and delete requests.
        self.watches_end: set[Watcher] = set()  # followers also fetch uncommitted records
        self.watches_high_watermark: set[Watcher] = set()
        # End offset and size of each uncommitted append, for fetches that wait for a number of bytes.
        self._uncommitted: deque[tuple[int, int]] = deque()
        self.on_storage_error: Callable[[PartitionLog, KafkaError], object] | None = None
        self.counts: TopicCounts | None = None  # only with metrics
        # Appends made here as leader and not yet included in `counts`.
        self.produces = 0
        self.bytes_in = 0
        self.led_from = -1  # log end offset at the start of this leadership

    def __repr__(self) -> str:
        return f"<{self.topic}-{self.index} led by {self.leader} in epoch {self.leader_epoch}>"

    # Roles

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    def become_leader(self, state: PartitionImage) -> bool:
        """Lead the partition as the state says. Return True if that starts a new leader epoch."""
        begins = self.leader != self.broker_id or state.leader_epoch > self.leader_epoch
        if begins and not _is_new(state):  # new partitions are logged per topic
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
                before.complete_alone()
        elif self.leading is not None:
            self.leading.learn(state)
        else:
            self.leading = LeaderState(self, state, self._context, before)
            self.leading.check()
        if begins:
            self.fail_watchers()
        return begins

    def become_follower(self, state: PartitionImage) -> bool:
        """Follow the state's leader, if any. Return True if that is a change."""
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
            self.fail_watchers()
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
        """Give up the role, because the partition leaves this broker or its log is unavailable."""
        self.leader = NO_LEADER
        self._lead_from(-1)
        if self.leading is not None:
            self.leading.close()
            self.leading = None
        self.fail_watchers()

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
        """Return the messages written under the current leadership, computed from the offsets."""
        return self.log.log_end_offset - self.led_from if self.led_from >= 0 else 0

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Check the leader epoch that a client assumes (KIP-320); -1 means unknown."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # Leading

    def append(
        self, records: Any, now_ms: int, *, from_client: bool = True, inspected: bool = False
    ) -> AppendInfo:
        """Append one batch as the leader, and notify waiting fetches. Raises InspectionNeeded."""
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
        """Append batches of another cluster's log unchanged, and drop records deleted there.

        If that log starts beyond the end of this one, this one restarts at that offset.
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
                info = log.append_mirrored(records)
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
        """End a producer's transaction in this partition, and notify waiting consumers."""
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
        self.log.producers.first_unstable_offset(self.high_watermark)  # drops finished transactions
        return info

    def _appended(self, info: AppendInfo, size: int) -> None:
        leading = self.leading
        self.produces += 1
        self.bytes_in += size
        if leading is None:
            self.high_watermark = self.log.log_end_offset
            if self.watches_high_watermark:
                for watcher in tuple(self.watches_high_watermark):
                    watcher.try_complete(self, size)
        elif not info.duplicate:
            self._count(size)
            leading.appended(info.first_offset)
            for watcher in self.watches_end:
                watcher.try_complete(self, size)

    def check_min_isr(self) -> None:
        """Reject acks=all if the ISR is smaller than min.insync.replicas."""
        if self.leading is not None and self.leading.is_below_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def delete_records(self, offset: int) -> int:
        """Delete all records below `offset` (-1: below the high watermark). Return the new log start offset."""
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.advance_log_start_offset(offset)
        for watcher in self.watches_end:
            watcher.try_complete(self, 0)  # followers should learn the new start offset at once
        return self.log.log_start_offset

    # Following

    def append_from_leader(self, records: memoryview) -> None:
        """Append records fetched from the leader at the log end offset."""
        log = self.log
        try:
            before = log.log_end_offset
            if before == log.log_start_offset and len(records) >= BATCH_OVERHEAD:
                first = read_header(records)
                if first.base_offset < before <= first.last_offset:
                    # The leader's log starts in the middle of a batch, because earlier records were deleted.
                    log.truncate_fully_and_start_at(first.base_offset)
            log.append_as_follower(records)
        except StorageError as error:
            self.storage_failed(error)
            raise
        if log.log_end_offset > before:
            self._count(len(records))
            if self.counts is not None:
                self.counts.replicated_in += len(records)

    def follow_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        """Apply the leader's high watermark and log start offset. Return True if the log start offset moved."""
        log = self.log
        self.advance_high_watermark(min(high_watermark, log.log_end_offset))
        if log_start_offset > log.log_start_offset:
            self._change_log(log.advance_log_start_offset, min(log_start_offset, log.log_end_offset))
            self.high_watermark = max(self.high_watermark, log.log_start_offset)
            return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Remove records that the leader lacks. `replication.truncation` determines the offset."""
        if offset < self.log.log_end_offset:
            self._say("Truncating from offset %d to %d", self.log.log_end_offset, offset)
        self._change_log(self.log.truncate_to, offset)
        self._truncated()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._change_log(self.log.truncate_fully_and_start_at, offset)
        self._truncated()

    def restart_above_remote(
        self, offset: int, log_start_offset: int, epochs: list[tuple[int, int]], producers: bytes
    ) -> None:
        """Remove everything, and follow from `offset` on: remote storage has the earlier records."""
        try:
            self.log.restart_above_remote(offset, log_start_offset, epochs, producers)
        except StorageError as error:
            self.storage_failed(error)
            raise
        # Only committed records are in remote storage.
        self.high_watermark = offset
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

    # High watermark

    def advance_high_watermark(self, offset: int) -> None:
        """Advance the high watermark, never backwards: committed records stay committed even if a new leader lags
        behind.
        """
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        size, uncommitted = 0, self._uncommitted
        while uncommitted and uncommitted[0][0] <= offset:
            size += uncommitted.popleft()[1]
        if self.watches_high_watermark:
            for watcher in tuple(self.watches_high_watermark):
                watcher.try_complete(self, size or 1)

    def _count(self, size: int) -> None:
        uncommitted = self._uncommitted
        if len(uncommitted) >= _COUNTED_APPENDS:
            size += uncommitted.pop()[1]
        uncommitted.append((self.log.log_end_offset, size))

    @property
    def last_stable_offset(self) -> int:
        """Return the last stable offset, the limit for read_committed consumers."""
        first = self.log.producers.first_unstable_offset(self.high_watermark)
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log.log_start_offset)

    def storage_failed(self, error: KafkaError) -> None:
        if self.on_storage_error is not None:
            self.on_storage_error(self.log, error)

    # Waiting

    @property
    def purgatory(self) -> Purgatory:
        return self._context.purgatory

    @property
    def waiting_fetches(self) -> int:
        return sum(isinstance(watcher, DelayedOperation) for watcher in self.watches_high_watermark)

    def fail_watchers(self) -> None:
        """End all fetches that wait, because the role has changed."""
        for watcher in self.watches_end | self.watches_high_watermark:
            watcher.fail(self, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _is_new(state: PartitionImage) -> bool:
    return state.leader_epoch == 0 and state.partition_epoch == 0


def shown_isr(isr: Iterable[int]) -> str:
    return f"[{','.join(map(str, isr))}]"
