"""The log of one partition (Kafka's UnifiedLog), with its segments, leader epochs and producer state."""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from crc32c import crc32c

from ottla.log import time_lookup
from ottla.log.append_check import (
    body_fault,
    check_unusual,
    inspect_on_loop,
    invalid_record,
    needs_records,
    read_only,
    refuse_short,
)
from ottla.log.append_info import AppendInfo
from ottla.log.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CRC,
    CRC_START,
    LEADER_EPOCH,
    LEADER_EPOCH_AT,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_AT,
    header_at,
)
from ottla.log.config import LOG_APPEND_TIME, LONG_MAX, LogConfig
from ottla.log.errors import CorruptSegmentError, StorageError, storage_error
from ottla.log.files.file_region import EMPTY_REGION, FileRegion
from ottla.log.files.live_ends import ACTIVE_BASE, END, END_COPY, FIRST_CRC, mirrored
from ottla.log.files.partition_metadata import ZERO_UUID, write_partition_metadata
from ottla.log.flushing import LogFlushing
from ottla.log.producer_state import SEQUENCE_MAX, ProducerDescription
from ottla.log.recovery import NEW_LOG, FoundLog, LoadedLog, load_log
from ottla.log.replicated_appends import ReplicatedAppends
from ottla.log.segments.partition_segments import LogSegments
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.transaction_index import AbortedTransaction, CompletedTransaction
from ottla.log.time_lookup import TimestampOffset
from ottla.log.trimming import LogTrimming
from ottla.protocol.batch_header import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_AT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
)
from ottla.protocol.compression import Buffer
from ottla.protocol.end_txn_marker import build_marker
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.mirror_link import mirrored_end

__all__ = ["AppendInfo", "PartitionLog"]

logger = logging.getLogger(__name__)

_RECENT_BATCHES = 32
_HIGHEST_CODEC = 4
_UNUSUAL_ATTRIBUTES = CONTROL_FLAG | TIMESTAMP_TYPE_FLAG
_unpack = HEADER.unpack_from


class PartitionLog:
    """Invariant: the segments hold [log_start_offset, log_end_offset) in order, the last one being active. The state in
    memory (end offset, producers, epochs, indexes) matches the files, even after a failed append.

    Owner: the event loop. `flush` and the lookups by time may run in a thread.
    """

    def __init__(
        self, path: str, topic: str, partition: int, config: LogConfig, topic_id: bytes, loaded: LoadedLog
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.path = Path(path)
        self.segments = LogSegments(loaded.segments)
        self.active = loaded.segments[-1]
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.manifest = loaded.manifest
        self.log_start_offset = loaded.log_start_offset
        self.checkpointed_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.first_dirty_offset = 0  # end of the compacted part
        self.offline_reason: str | None = None
        self._closed = False
        self._live: memoryview | None = None  # this log's slot in the live ends of its directory
        # Called with the new end before the log shrinks: checkpoints must not promise more.
        self.before_shrink: Callable[[PartitionLog, int], None] | None = None
        # Base offset → position of the last batches in the active segment, for tail reads.
        self._recent: dict[int, int] = {}
        # Reason of the last failed append, until one succeeds. The producer's next batch gets the same error. "Out of
        # order" would be correct as well, but librdkafka would then start a new epoch and resend written batches.
        self.refusal: KafkaError | None = None
        self.config = config
        self.replicated = ReplicatedAppends(self)
        self.flushing = LogFlushing(self)
        self._trimming = LogTrimming(self)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        topic_id: bytes = ZERO_UUID,
        found: FoundLog = NEW_LOG,
    ) -> PartitionLog:
        """Open or create a directory.

        Raises CorruptSegmentError or DamagedLogError for damage that recovery must not touch.
        """
        directory = os.fspath(path)
        try:
            if not os.path.isdir(directory):
                os.makedirs(directory)
                if topic_id != ZERO_UUID:
                    write_partition_metadata(directory, topic_id)
            loaded = load_log(directory, config, found)
            if not loaded.segments[-1].takes_appends:
                loaded.segments[-1].activate()
        except OSError as error:
            raise storage_error(f"cannot open the log in {directory}", error) from error
        log = cls(directory, topic, partition, config, topic_id, loaded)
        if log.log_end_offset < log.log_start_offset:
            # The checkpoint is newer than the data: earlier records were deleted on purpose.
            log.truncate_fully_and_start_at(log.log_start_offset)
        elif log.segments.count_below(log.log_start_offset):
            log._trimming.delete_below(log.log_start_offset)
        return log

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """Set the configuration, effective with the next append. Caches fields of the hot path."""
        self._config = config
        self._max_batch_bytes = min(config.max_message_bytes, config.segment_bytes)
        if config.is_mirror:
            self._max_batch_bytes = -1  # treats every batch as unusual, so that `append` refuses it
        # Earlier producer ids belong to another cluster, which may have assigned the same ids to other producers.
        self._mirrored_end = mirrored_end(config.ottla_mirror_promoted, self.partition)
        self._log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._after_max_ms = LONG_MAX if self._log_append_time else config.message_timestamp_after_max_ms
        self._reads_records = needs_records(config)
        self._flush_messages = config.flush_messages
        self.jitter_ms = random.randrange(config.segment_jitter_ms) if config.segment_jitter_ms > 0 else 0
        self.active.configure(config, self.jitter_ms)

    @property
    def durable_start_offset(self) -> int:
        """Log start offset after a crash: earlier records cannot return."""
        return min(self.log_start_offset, max(self.segments.base_offset, self.checkpointed_start_offset))

    @property
    def size(self) -> int:
        return self.segments.size

    @property
    def is_closed(self) -> bool:
        return self._closed

    # Appending

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        from_client: bool = True,
        inspected: bool = False,
    ) -> AppendInfo:
        """Append one batch as leader, writing base offset and leader epoch into `records` itself.

        Raises InspectionNeeded if the caller has to run `append_check.inspect` first and then pass `inspected`.
        """
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
            or (producer_id >= 0 and (first_sequence < 0 or producer_epoch < 0))
            or (producer_id < 0 and attributes & TRANSACTIONAL_FLAG)
        ):
            if self._config.is_mirror:
                raise read_only(self.topic)
            check_unusual(view, actual_crc, self._config, from_client=from_client)
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
                    if self.producers.forget_below(producer_id, self._mirrored_end):
                        pass  # another producer, of the mirror's source
                    elif error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self.refusal is not None:
                        raise KafkaError(self.refusal.code, self.refusal.message) from error
                    else:
                        raise
            else:
                self.producers.check_epoch(producer_id, producer_epoch)
            if repeated is not None and not self.producers.forget_below(producer_id, self._mirrored_end):
                _, _, first_offset, last_offset, timestamp = repeated
                append_time = timestamp if self._log_append_time else -1
                return AppendInfo(
                    first_offset, last_offset, append_time, self.log_start_offset, timestamp, True
                )
        if self.offline_reason is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)
        if from_client and not inspected:
            if self._reads_records or max_timestamp - now_ms > self._after_max_ms:
                view = inspect_on_loop(view, self._config, now_ms)
                size = len(view)
                attributes = header_at(view).attributes
            elif (fault := body_fault(view, attributes & CODEC_MASK, count)) is not None:
                raise invalid_record(fault)
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
            segment = self.roll_for_append(first_offset)
        if leader_epoch != self.epochs.latest:
            self.start_epoch(leader_epoch)
        BASE_OFFSET.pack_into(view, 0, first_offset)
        LEADER_EPOCH.pack_into(view, LEADER_EPOCH_AT, leader_epoch)
        try:
            position = segment.append(view, size, last_offset, max_timestamp)
        except KafkaError as error:
            self.write_failed(error)
            raise
        self.log_end_offset = last_offset + 1
        live = self._live
        if live is not None:
            live[END] = live[END_COPY] = last_offset + 1
            if not position:
                self._note_first_batch()
        self.refusal = None
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
        """End the producer's transaction as leader: its records become readable or aborted."""
        try:
            self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        except KafkaError:
            if not self.producers.forget_below(producer_id, self._mirrored_end):
                raise
        batch = build_marker(
            producer_id, producer_epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp=now_ms
        )
        info = self.append(batch, leader_epoch=leader_epoch, now_ms=now_ms, from_client=False)
        completed = self.producers.end_transaction(header_at(batch), coordinator_epoch, not commit)
        if completed is not None and completed.aborted:
            self.index_aborted(self.active, completed)
        return info

    def index_aborted(self, segment: LogSegment, completed: CompletedTransaction) -> None:
        try:
            segment.transaction_index.append(self.producers.aborted(completed))
        except OSError as error:
            # Without the entry consumers would treat the aborted records as committed.
            self.go_offline("marked with an aborted transaction", error)

    def write_failed(self, error: KafkaError) -> None:
        self.refusal = error
        if not self.active.takes_appends:
            self.offline_reason = f"{error.message}; the log takes no appends until the broker is restarted"
            logger.error("%s", self.offline_reason)

    # Live end of the log, to detect losses at the next start

    def note_live_end(self, slot: memoryview | None) -> None:
        """Record the end of this log in a slot that survives the process."""
        self._live = slot
        self.appended(is_first=True)

    def appended(self, *, is_first: bool = False) -> None:
        """Record the new log end offset. The files contain everything below it, including the segment's first batch."""
        if self._live is not None:
            self._live[END] = self._live[END_COPY] = self.log_end_offset
            if is_first:
                self._note_first_batch()

    def _note_first_batch(self) -> None:
        live = self._live
        if live is not None:
            live[FIRST_CRC] = 0
            live[ACTIVE_BASE] = self.active.base_offset
            with suppress(OSError):
                crc = self.active.first_crc_of_file()
                live[FIRST_CRC] = 0 if crc is None else mirrored(crc)

    def shrinks_to(self, offset: int) -> None:
        """Reduce all records of the log's length before the end is truncated."""
        if self._live is not None:
            self._live[FIRST_CRC] = 0
            self._live[END] = self._live[END_COPY] = min(offset, self.log_end_offset)
        self.manifest.forget(self.segments.base_at(offset), LONG_MAX)
        if self.before_shrink is not None:
            self.before_shrink(self, offset)

    def note_finished(self, segment: LogSegment, end_offset: int, *, is_sealed: bool) -> None:
        """Describe a segment's files in the manifest. An outdated entry claims less than the files hold, never more."""
        try:
            self.manifest.note(segment.note_for_manifest(end_offset, is_sealed=is_sealed))
            self.manifest.snapshots = dict(self.producers.checksums)
            self.manifest.write()
        except OSError as error:
            logger.debug("cannot write the manifest of %s: %s", self.path, error)

    def roll(self, base_offset: int | None = None) -> LogSegment:
        """Seal the active segment and start a new one at the log end offset."""
        old = self.active
        base = self.log_end_offset if base_offset is None else base_offset
        if base == old.base_offset:
            return old
        old.write_indexes()
        self.epochs.write()
        self.producers.take_snapshot(base)
        segment = LogSegment(old.directory, base, self._config, jitter_ms=self.jitter_ms)
        segment.create_files()
        old.seal()
        self.note_finished(old, self.log_end_offset, is_sealed=True)
        self.segments.append(segment)
        self.make_active(segment)
        return segment

    def make_active(self, segment: LogSegment) -> None:
        self.active = segment
        self._recent.clear()

    def roll_for_append(self, base_offset: int) -> LogSegment:
        try:
            return self.roll(base_offset)
        except OSError as error:
            self.refusal = storage_error(f"cannot start a new segment in {self.path}", error)
            raise self.refusal from error

    def skip_to(self, offset: int) -> None:
        """Continue at a later offset: compaction removed everything in between."""
        self.roll_for_append(offset)
        self.log_end_offset = offset
        self.appended()

    # Reading

    def reads_tail(self, offset: int) -> bool:
        """Return True if a read at `offset` needs only the most recent batches, if any."""
        return offset in self._recent or offset >= self.log_end_offset or offset < self.log_start_offset

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one: bool) -> FileRegion:
        """Return the bytes from the batch containing `offset`, within one segment and below the offset `upto`.

        At most `max_bytes`, but with `min_one` at least the first batch. Empty if there are no records yet.
        """
        end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not between {self.log_start_offset} and {end_offset}",
            )
        if upto > end_offset:
            upto = end_offset
        if offset >= upto:
            return EMPTY_REGION
        position = self._recent.get(offset)
        if position is not None and upto == end_offset:
            active = self.active
            size = active.size - position
            if size <= max_bytes:
                return FileRegion(active.file or active.open_file(), position, size)
        self._check_open()
        try:
            return self.segments.read(offset, max_bytes, upto, end_offset, min_one)
        except CorruptSegmentError as error:
            logger.error("%s", error)
            raise
        except OSError as error:
            raise storage_error(f"cannot read {self.path}", error) from error

    def aborted_transactions(self, offset: int, region: FileRegion) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in a region read at `offset`."""
        return self.segments.aborted_transactions(offset, region, self.log_end_offset)

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)

    def offset_for_timestamp(self, timestamp: int, upto: int) -> TimestampOffset | None:
        """Return offset, timestamp and leader epoch of the first record at or after `timestamp`, below `upto`."""
        self._check_open()
        return time_lookup.offset_for_timestamp(self.segments, self.log_start_offset, timestamp, upto)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return offset, timestamp and leader epoch of the first record with the largest timestamp."""
        self._check_open()
        return time_lookup.max_timestamp_offset(self.segments, self.log_start_offset)

    # Leader epochs

    def start_epoch(self, leader_epoch: int, start_offset: int | None = None) -> None:
        """Start `leader_epoch`, by default at the end of the log."""
        self.epochs.assign(leader_epoch, self.log_end_offset if start_offset is None else start_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest known epoch at or below `leader_epoch` and its end offset; (-1, -1) if unknown."""
        latest = self.epochs.latest
        if 0 <= latest < leader_epoch and (self._config.is_mirror or self._mirrored_end >= 0):
            # Epochs of leaders that only mirrored are not recorded: see `ReplicatedAppends`.
            return latest, self.log_end_offset
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of `offset`, existing or next, or -1 if unknown."""
        return self.epochs.epoch_of(offset)

    # Producers

    def describe_producers(self) -> list[ProducerDescription]:
        return self.producers.describe()

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        return self.producers.remove_expired(now_ms, expiration_ms)

    # Truncation, retention, compaction

    def truncate_to(self, offset: int) -> None:
        """Remove everything at or above `offset`, including the whole batch that contains it."""
        self._trimming.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the next record gets `offset`."""
        self._trimming.truncate_fully_and_start_at(offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete the records below `offset`, and segments completely below it."""
        self._trimming.advance_log_start_offset(offset)

    def delete_old_segments(self, now_ms: int, upto: int) -> int:
        """Delete the segments named by retention.deletable_segments below `upto` (the high watermark). Return their
        number.
        """
        return self._trimming.delete_old_segments(now_ms, upto)

    def unlink_deleted(self, now_ms: int) -> None:
        """Unlink the files of deleted segments after their delay."""
        self.segments.unlink_deleted(now_ms)

    def replace_segments(self, old: list[LogSegment], new: LogSegment, now_ms: int) -> None:
        """Replace sealed neighbours by the `.cleaned` segment made of them."""
        self._trimming.replace_segments(old, new, now_ms)

    # Durability and closing

    def go_offline(self, what: str, error: OSError) -> NoReturn:
        """Take the log offline, because the state on disk is no longer known."""
        self.offline_reason = f"{self.path} could not be {what}: {error.strerror or error}"
        logger.error("%s", self.offline_reason)
        raise StorageError(self.offline_reason, error) from error

    def flush(self, upto: int | None = None) -> None:
        """fsync everything above the recovery point, up to the end or to a segment's base offset.

        May run in a thread. A concurrent truncation invalidates its result.
        """
        self.flushing.flush(upto)

    def flush_due(self, now_ms: int) -> bool:
        """Return True if flush.ms has passed, or a sealed segment is not yet synced."""
        return self.flushing.is_due(now_ms)

    def close(self) -> None:
        """Close the files so that the next start needs no recovery."""
        try:
            if self.offline_reason is None:
                self.active.write_indexes()
                self.epochs.write()
                self.flush()
                if self.log_end_offset > self.segments.base_offset or self.producers.producers:
                    self.producers.take_snapshot(self.log_end_offset)
                self.note_finished(self.active, self.log_end_offset, is_sealed=False)
        except OSError as error:
            raise storage_error(f"cannot close {self.path}", error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the files as they are, as in a crash."""
        self.segments.close()
        self._recent.clear()
        self._live = None
        self._closed = True  # another log may reuse the path, so no file may be opened by name any more
        self.offline_reason = self.offline_reason or f"{self.path} is closed"

    def rename(self, path: str) -> None:
        """Rename the directory. Concurrent readers are unaffected."""
        try:
            os.rename(self.path, path)
        except OSError as error:
            raise storage_error(f"cannot rename {self.path} to {path}", error) from error
        self.path = Path(path)
        self.segments.moved_to(path)
        self.epochs.moved_to(path)
        self.producers.moved_to(path)
        self.manifest.moved_to(path)
        self.flushing.moved()

    def retire(self, reason: str) -> None:
        """Refuse appends; running reads may finish."""
        self.offline_reason = reason

    def delete(self) -> None:
        """Close the log without saving state, and remove the directory."""
        self.abandon()
        shutil.rmtree(self.path, ignore_errors=True)
