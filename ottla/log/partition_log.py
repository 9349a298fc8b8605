"""The log of one partition: appends, and its life from opening to closing."""

from __future__ import annotations

import logging
import os
import random
import shutil
import time
from functools import partial
from pathlib import Path

from crc32c import crc32c

from ottla.log.append_check import check_records, check_replicated, check_unusual, needs_records, refuse_short
from ottla.log.append_info import AppendInfo
from ottla.log.batch import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BASE_OFFSET,
    BATCH_OVERHEAD,
    CRC,
    CRC_AT,
    CRC_START,
    HEADER,
    LEADER_EPOCH,
    LEADER_EPOCH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_AT,
    BatchHeader,
    Buffer,
    header_at,
)
from ottla.log.config import LOG_APPEND_TIME, LogConfig
from ottla.log.errors import is_passing, storage_error
from ottla.log.files.checkpoint import sync_path
from ottla.log.files.partition_metadata import ZERO_UUID, write_partition_metadata
from ottla.log.producer_state import SEQUENCE_MAX
from ottla.log.recovery import LoadedLog, load_log
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.transaction_index import CompletedTransaction
from ottla.log.trimmed_log import TrimmedLog
from ottla.protocol.batch_header import CODEC_MASK, CONTROL_FLAG, TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG
from ottla.protocol.end_txn_marker import build_marker
from ottla.protocol.errors import ErrorCode, KafkaError

__all__ = ["AppendInfo", "PartitionLog"]

logger = logging.getLogger(__name__)

_RECENT_BATCHES = 32
_HIGHEST_CODEC = 4
_UNUSUAL_ATTRIBUTES = CONTROL_FLAG | TIMESTAMP_TYPE_FLAG
_unpack = HEADER.unpack_from


class PartitionLog(TrimmedLog):
    """Invariant: the segments hold [log_start_offset, log_end_offset) in order, the last one active; memory
    (end offset, producers, epochs, indexes) says exactly what the files say, also after a failed append.

    Owner: the event loop. `flush` and the lookups by time may run in a thread.
    """

    def __init__(
        self, path: str, topic: str, partition: int, config: LogConfig, topic_id: bytes, loaded: LoadedLog
    ) -> None:
        super().__init__(path, topic, partition, topic_id, loaded)
        self._entry_synced = False
        self.last_flush_ms = int(time.time() * 1000)
        # Why the last append was not written, until one is. A producer's next batch must hear the same: that it is out
        # of order is true, but makes librdkafka begin a new epoch, in which it sends again what was written before.
        self._refusal: KafkaError | None = None
        self.config = config

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: bytes = ZERO_UUID,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean_shutdown: bool,
    ) -> PartitionLog:
        """Open a directory, or make it. CorruptSegmentError if it has damage that recovery must not touch."""
        directory = os.fspath(path)
        try:
            if not os.path.isdir(directory):
                os.makedirs(directory)
                if topic_id != ZERO_UUID:
                    write_partition_metadata(directory, topic_id)
            loaded = load_log(
                directory,
                config,
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                clean_shutdown=clean_shutdown,
            )
            if loaded.segments[-1].file is None:
                loaded.segments[-1].activate()
        except OSError as error:
            raise storage_error(f"cannot open the log in {directory}", error) from error
        log = cls(directory, topic, partition, config, topic_id, loaded)
        if log.log_end_offset < log.log_start_offset:
            # The checkpoint is newer than the data: what lay below it had been deleted on purpose.
            log.truncate_fully_and_start_at(log.log_start_offset)
        elif log.segments.count_below(log.log_start_offset):
            log._delete_first(log.segments.count_below(log.log_start_offset), int(time.time() * 1000))
        return log

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """Holds from the next append on; fields of the hot path are laid out here."""
        self._config = config
        self._max_batch_bytes = min(config.max_message_bytes, config.segment_bytes)
        self._log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._reads_records = needs_records(config)
        self._flush_messages = config.flush_messages
        self._jitter_ms = random.randrange(config.segment_jitter_ms) if config.segment_jitter_ms > 0 else 0
        self.active.configure(config, self._jitter_ms)

    # Appending

    def append(
        self, records: Buffer, *, leader_epoch: int, now_ms: int, from_client: bool = True
    ) -> AppendInfo:
        """Append one batch as leader. Its base offset and leader epoch are written into `records` itself."""
        view = records if type(records) is memoryview else memoryview(records)
        size = len(view)
        if size < BATCH_OVERHEAD:
            raise refuse_short(size)
        (
            base_offset, length, _, magic, crc, attributes, delta,
            _, max_timestamp, producer_id, producer_epoch, first_sequence, count,
        ) = _unpack(view)  # fmt: skip
        actual_crc = crc32c(view[CRC_START:])
        if (
            actual_crc != crc
            or magic != MAGIC
            or length != size - LOG_OVERHEAD
            or size > self._max_batch_bytes
            or count != delta + 1
            or delta < 0
            or base_offset
            or attributes & _UNUSUAL_ATTRIBUTES
            or attributes & CODEC_MASK > _HIGHEST_CODEC
            or max_timestamp - now_ms > self._after_max_ms
            or (producer_id >= 0 and (first_sequence < 0 or producer_epoch < 0))
            or (producer_id < 0 and attributes & TRANSACTIONAL_FLAG)
        ):
            check_unusual(view, actual_crc, self._config, now_ms=now_ms, from_client=from_client)
        last_sequence = -1
        if producer_id >= 0:
            last_sequence = (first_sequence + delta) & SEQUENCE_MAX
            repeated = None
            if from_client:
                try:
                    repeated = self.producers.check(
                        producer_id,
                        producer_epoch,
                        first_sequence,
                        last_sequence,
                        attributes & TRANSACTIONAL_FLAG != 0,
                    )
                except KafkaError as error:
                    if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._refusal is not None:
                        raise KafkaError(self._refusal.code, self._refusal.message) from error
                    raise
            else:
                self.producers.check_epoch(producer_id, producer_epoch)
            if repeated is not None:
                _, _, first_offset, last_offset, timestamp = repeated
                append_time = timestamp if self._log_append_time else -1
                return AppendInfo(
                    first_offset, last_offset, append_time, self.log_start_offset, timestamp, True
                )
        if self.offline_reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)
        if self._reads_records and from_client:
            view = check_records(view, header_at(view), self._config, now_ms)
            size = len(view)
            attributes = header_at(view).attributes
        if view.readonly:
            view = memoryview(bytearray(view))
        append_time = -1
        if self._log_append_time:
            append_time = max_timestamp = now_ms
            ATTRIBUTES.pack_into(view, ATTRIBUTES_AT, attributes | TIMESTAMP_TYPE_FLAG)
            MAX_TIMESTAMP.pack_into(view, MAX_TIMESTAMP_AT, now_ms)
            CRC.pack_into(view, CRC_AT, crc32c(view[CRC_START:]))

        first_offset = self.log_end_offset
        last_offset = first_offset + delta
        segment = self.active
        if (
            segment.size + size > segment.max_size
            or max_timestamp > segment.roll_after_timestamp
            or now_ms > segment.roll_after_time
            or last_offset > segment.max_offset
            or segment.index_full
        ):
            segment = self._roll_for_append(first_offset)
        if leader_epoch != self._latest_epoch:
            self.start_epoch(leader_epoch)
        BASE_OFFSET.pack_into(view, 0, first_offset)
        LEADER_EPOCH.pack_into(view, LEADER_EPOCH_AT, leader_epoch)
        try:
            position = segment.append(view, size, last_offset, max_timestamp)
        except KafkaError as error:
            self._after_failed_write(error)
            raise
        self.log_end_offset = last_offset + 1
        self._refusal = None
        recent = self._recent
        recent[first_offset] = position
        if len(recent) > _RECENT_BATCHES:
            del recent[next(iter(recent))]
        if producer_id >= 0 and not attributes & CONTROL_FLAG:
            batch = (first_sequence, last_sequence, first_offset, last_offset, max_timestamp)
            self.producers.update(producer_id, producer_epoch, batch, attributes & TRANSACTIONAL_FLAG != 0)
        if last_offset - self.recovery_point >= self._flush_messages - 1:
            self.flush()
        return AppendInfo(first_offset, last_offset, append_time, self.log_start_offset, max_timestamp)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendInfo:
        """End the producer's transaction as leader: what it wrote becomes readable, or aborted."""
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        batch = build_marker(
            producer_id,
            producer_epoch,
            commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
        )
        info = self.append(batch, leader_epoch=leader_epoch, now_ms=now_ms, from_client=False)
        completed = self.producers.end_transaction(header_at(batch), coordinator_epoch, not commit)
        if completed is not None and completed.aborted:
            self._index_aborted(self.active, completed)
        return info

    def _index_aborted(self, segment: LogSegment, completed: CompletedTransaction) -> None:
        try:
            segment.transaction_index.append(self.producers.aborted(completed))
        except OSError as error:
            # Without the entry a consumer would take the aborted records for committed ones.
            self._go_offline("told of an aborted transaction", error)

    def append_as_follower(self, records: Buffer) -> AppendInfo:
        """Append what a leader sent: any number of batches, offsets and epochs kept, a cut one left out."""
        if self.offline_reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)
        view = memoryview(records)
        batches = check_replicated(view, self.log_end_offset)
        first_offset = batches[0][1].base_offset if batches else self.log_end_offset
        max_timestamp = max((header.max_timestamp for _, header in batches), default=-1)
        while batches:
            segment = self.active
            header = batches[0][1]
            if _must_roll(segment, header, segment.size):
                base = self.log_end_offset
                if header.last_offset > base + segment.max_offset - segment.base_offset:
                    base = header.base_offset  # compaction left a gap that no segment can span
                segment = self._roll_for_append(base)
            count, end = 1, segment.size + header.size
            while count < len(batches) and not _must_roll(segment, batches[count][1], end):
                end += batches[count][1].size
                count += 1
            self._append_run(segment, view, batches[:count])
            batches = batches[count:]
        if self.log_end_offset - self.recovery_point >= self._flush_messages:
            self.flush()
        return AppendInfo(first_offset, self.log_end_offset - 1, -1, self.log_start_offset, max_timestamp)

    def _append_run(
        self, segment: LogSegment, view: memoryview, batches: list[tuple[int, BatchHeader]]
    ) -> None:
        """One write for batches that go to the same segment."""
        start, last = batches[0][0], batches[-1]
        end = last[0] + last[1].size
        for _, header in batches:
            if header.partition_leader_epoch != self._latest_epoch:
                self.start_epoch(header.partition_leader_epoch, header.base_offset)
        try:
            base_position = segment.write(view[start:end], end - start)
        except KafkaError as error:
            self._after_failed_write(error)
            raise
        for at, header in batches:
            segment.note(header, base_position + at - start)
            completed = self.producers.replay(header, partial(bytes, view[at : at + header.size]))
            if completed is not None and completed.aborted:
                self._index_aborted(segment, completed)
        self.log_end_offset = last[1].last_offset + 1
        self._refusal = None

    def _after_failed_write(self, error: KafkaError) -> None:
        self._refusal = error
        if self.active.file is None:
            self.offline_reason = f"{error.message}; the log takes no appends until the broker is restarted"
            logger.error("%s", self.offline_reason)

    def _roll_for_append(self, base_offset: int) -> LogSegment:
        try:
            return self.roll(base_offset)
        except OSError as error:
            self._refusal = storage_error(f"cannot start a new segment in {self.path}", error)
            raise self._refusal from error

    def skip_to(self, offset: int) -> None:
        """Go on at a later offset: compaction has left nothing of what lies between."""
        self._roll_for_append(offset)
        self.log_end_offset = offset

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Give a directory that has no topic id the one that the cluster knows."""
        try:
            write_partition_metadata(os.fspath(self.path), topic_id)
        except OSError as error:
            raise storage_error(f"cannot write the topic id of {self.path}", error) from error
        self.topic_id = topic_id

    # Leader epochs

    def start_epoch(self, leader_epoch: int, start_offset: int | None = None) -> None:
        """Note that `leader_epoch` begins, by default at the end of the log."""
        self.epochs.assign(leader_epoch, self.log_end_offset if start_offset is None else start_offset)
        self._latest_epoch = self.epochs.latest

    # Producers

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        return self.producers.remove_expired(now_ms, expiration_ms)

    # Durability and the end

    def flush(self, upto: int | None = None) -> None:
        """fsync what is not yet below the recovery point, up to the end or to the base offset of a segment.

        May run in a thread. A truncation meanwhile makes its result void.
        """
        truncations = self.truncations
        end = self.log_end_offset if upto is None else min(upto, self.log_end_offset)
        if end <= self.recovery_point:
            return
        try:
            self.epochs.write(sync=True)
        except OSError as error:
            if not is_passing(error):
                self._go_offline("flushed", error)
            # No data is lost by it: a full disk may have room again with the next flush.
            raise storage_error(f"cannot write the leader epochs of {self.path}", error) from error
        try:
            self.segments.sync(self.recovery_point, end)
            sync_path(os.fspath(self.path))
            if not self._entry_synced:
                sync_path(os.path.dirname(self.path))  # a new log has to be found, too
                self._entry_synced = True
        except OSError as error:
            self._go_offline("flushed", error)
        with self._flush_lock:
            if truncations == self.truncations:
                self.recovery_point = max(self.recovery_point, end)
                self.last_flush_ms = int(time.time() * 1000)

    def flush_due(self, now_ms: int) -> bool:
        """Whether flush.ms has passed, or a sealed segment waits for its fsync."""
        waits = self.recovery_point < self.log_end_offset
        return waits and (
            self.recovery_point < self.active.base_offset
            or now_ms - self.last_flush_ms >= self._config.flush_ms
        )

    def close(self) -> None:
        """Leave the files so that the next start needs no recovery."""
        try:
            if self.offline_reason is None:
                self.active.write_indexes()
                self.epochs.write()
                self.flush()
                if self.log_end_offset > self.segments.base_offset or self.producers.producers:
                    self.producers.take_snapshot(self.log_end_offset)
        except OSError as error:
            raise storage_error(f"cannot close {self.path}", error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are, as a crash would."""
        self.segments.close()
        self._recent.clear()
        self._closed = True  # another log may get the same path: nothing may be opened by name any more
        self.offline_reason = self.offline_reason or f"{self.path} is closed"

    def rename(self, path: str) -> None:
        """Give the directory another name. Who reads meanwhile notices nothing."""
        try:
            os.rename(self.path, path)
        except OSError as error:
            raise storage_error(f"cannot rename {self.path} to {path}", error) from error
        self.path = Path(path)
        self.segments.moved_to(path)
        self.epochs.moved_to(path)
        self.producers.moved_to(path)
        self._entry_synced = False

    def retire(self, reason: str) -> None:
        """Take no more appends; what is being read is read to its end."""
        self.offline_reason = reason

    def delete(self) -> None:
        """Close without keeping anything, and remove the directory."""
        self.abandon()
        shutil.rmtree(self.path, ignore_errors=True)


def _must_roll(segment: LogSegment, header: BatchHeader, size: int) -> bool:
    return (
        (size > 0 and size + header.size > segment.max_size)
        or header.max_timestamp > segment.roll_after_timestamp
        or header.last_offset > segment.max_offset
        or segment.index_full
    )
