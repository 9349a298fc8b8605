"""The files of one partition's log (Kafka's LocalLog): segments, and the state stored beside them.

Everything but appending: reading, rolling, truncation, retention, the swap after compaction, fsync. `partition_log`
adds the appends.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NoReturn, Self

from ottla.log import retention as time_lookup
from ottla.log.config import (
    LONG_MAX,
    CorruptSegmentError,
    LogConfig,
    StorageError,
    is_temporary,
    storage_error,
)
from ottla.log.files.checkpoint import sync_path
from ottla.log.files.descriptors import EMPTY_REGION, FileRegion
from ottla.log.files.live_ends import ACTIVE_BASE, END, END_COPY, FIRST_CRC, mirrored
from ottla.log.files.meta_properties import ZERO_UUID, write_partition_metadata
from ottla.log.producer_state import ProducerDescription, decode_snapshot
from ottla.log.recovery import NEW_LOG, FoundLog, LoadedLog, load_log, rebuild_producers
from ottla.log.retention import TimestampOffset, deletable_segments
from ottla.log.segments.index import AbortedTransaction
from ottla.log.segments.partition_segments import LogSegments, decide_swap, finish_swap
from ottla.log.segments.segment import LogSegment
from ottla.monitoring.metrics.text import Histogram
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, REMOTE_LOG_METADATA_TOPIC, mirrored_end

logger = logging.getLogger(__name__)

_NEVER_TIERED = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}


class FlushTimes(Histogram):
    """Histogram with a lock, because several threads flush logs. Its cost is negligible beside an fsync."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def add(self, value: int, weight: int = 1) -> None:
        with self._lock:
            super().add(value, weight)


flush_times = FlushTimes()


class LocalLog:
    """Invariant: the segments hold [log_start_offset, log_end_offset) in order, the last one being active. After each
    step files, offsets, epochs and producers agree, or the log is offline. The recovery point never exceeds the durable
    part of the log, even during a truncation.

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
        self.copied_upto = 0  # remote storage has all records below
        self.offline_reason: str | None = None
        # Reason of the last failed append, until one succeeds. The producer's next batch gets the same error. "Out of
        # order" would be correct as well, but librdkafka would then start a new epoch and resend written batches.
        self.refusal: KafkaError | None = None
        self.truncations = 0
        self.last_flush_ms = int(time.time() * 1000)
        # Called with the new end before the log shrinks: checkpoints must not promise more.
        self.before_shrink: Callable[[LocalLog, int], None] | None = None
        # Base offset → position of the last batches in the active segment, for tail reads.
        self._recent: dict[int, int] = {}
        self._live: memoryview | None = None  # this log's slot in the live ends of its directory
        self._closed = False
        self._flush_lock = Lock()
        self._entry_synced = False
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
        found: FoundLog = NEW_LOG,
    ) -> Self:
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
            log._delete_below(log.log_start_offset)
        return log

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._configure(config)

    def _configure(self, config: LogConfig) -> None:
        """Apply a configuration, effective with the next append."""
        self._config = config
        # Earlier producer ids belong to another cluster, which may have assigned the same ids to other producers.
        self._mirrored_end = mirrored_end(config.ottla_mirror_promoted, self.partition)
        self.jitter_ms = random.randrange(config.segment_jitter_ms) if config.segment_jitter_ms > 0 else 0
        self.active.configure(config, self.jitter_ms)
        gave_up = config.remote_log_delete_on_disable and not config.remote_storage_enable
        if gave_up and self.log_start_offset < self.segments.base_offset:
            # Tiered storage was disabled for the topic: records that only remote storage has are deleted.
            self._start_at(self.segments.base_offset)

    @property
    def durable_start_offset(self) -> int:
        """Log start offset after a crash: earlier records cannot return."""
        certain = self.checkpointed_start_offset
        if not self.is_tiered:
            certain = max(self.segments.base_offset, certain)
        return min(self.log_start_offset, certain)

    @property
    def local_start_offset(self) -> int:
        """Start of the records on this disk; earlier ones, from the log start offset on, are in remote storage."""
        return max(self.log_start_offset, self.segments.base_offset)

    @property
    def is_tiered(self) -> bool:
        return self._config.is_tiered and self.topic not in _NEVER_TIERED

    @property
    def size(self) -> int:
        return self.segments.size

    @property
    def is_closed(self) -> bool:
        return self._closed

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
        if offset < self.segments.base_offset:
            raise KafkaError(
                ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                f"offset {offset} is in remote storage: the log begins locally at {self.segments.base_offset}",
            )
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
            # Epochs of leaders that only mirrored are not recorded: see `PartitionLog.append_mirrored`.
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

    # Rolling

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
        self._note_finished(old, self.log_end_offset, is_sealed=True)
        self.segments.append(segment)
        self._make_active(segment)
        return segment

    def _make_active(self, segment: LogSegment) -> None:
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
        self._appended()

    # Live end of the log, to detect losses at the next start

    def note_live_end(self, slot: memoryview | None) -> None:
        """Record the end of this log in a slot that survives the process."""
        self._live = slot
        self._appended(is_first=True)

    def _appended(self, *, is_first: bool = False) -> None:
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

    def _shrinks_to(self, offset: int) -> None:
        """Reduce all records of the log's length before the end is truncated."""
        self.copied_upto = min(self.copied_upto, offset)  # the next records may differ from those copied
        if self._live is not None:
            self._live[FIRST_CRC] = 0
            self._live[END] = self._live[END_COPY] = min(offset, self.log_end_offset)
        self.manifest.forget(self.segments.base_at(offset), LONG_MAX)
        if self.before_shrink is not None:
            self.before_shrink(self, offset)

    def _note_finished(self, segment: LogSegment, end_offset: int, *, is_sealed: bool) -> None:
        """Describe a segment's files in the manifest. An outdated entry claims less than the files hold, never more."""
        try:
            self.manifest.note(segment.note_for_manifest(end_offset, is_sealed=is_sealed))
            self.manifest.snapshots = dict(self.producers.checksums)
            self.manifest.write()
        except OSError as error:
            logger.debug("cannot write the manifest of %s: %s", self.path, error)

    # Truncation, retention, compaction

    def truncate_to(self, offset: int) -> None:
        """Remove everything at or above `offset`, including the whole batch that contains it."""
        if offset >= self.log_end_offset:
            # An epoch without records may have started at the end; other leaders do not know it.
            self.epochs.truncate_from_end(offset)
            return
        if offset <= self.segments.base_offset:
            if self.is_tiered and self.log_start_offset < offset:
                self.restart_above_remote(offset, self.log_start_offset, self.epochs.entries)
            else:
                self.truncate_fully_and_start_at(offset)
            return
        self._void_flush()
        try:
            self._shrinks_to(offset)
            # Snapshots first: after a crash a snapshot above the end of the log would be trusted.
            self.producers.remove_snapshots_after(offset)
            self.segments.discard_above(offset)
            active = self.segments[-1]
            self._make_active(active)
            end = active.truncate_to(offset)
            active.activate()
            active.configure(self.config, self.jitter_ms)
            self.log_end_offset = end
            self.log_start_offset = min(self.log_start_offset, end)
            self.recovery_point = min(self.recovery_point, end)
            self.first_dirty_offset = min(self.first_dirty_offset, end)
            self._appended(is_first=True)
            self.epochs.truncate_from_end(end)
            self.producers.remove_snapshots_after(end)
            rebuild_producers(self.producers, list(self.segments), end)
        except OSError as error:
            self.go_offline("truncated", error)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the next record gets `offset`."""
        self._void_flush()
        try:
            self._shrinks_to(0)
            self.producers.clear()
            active = LogSegment(os.fspath(self.path), offset, self.config, jitter_ms=self.jitter_ms)
            self.segments.replace_all([active])
            active.create_files()
            self._make_active(active)
            self.epochs.clear()
        except OSError as error:
            self.go_offline("truncated", error)
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self._appended(is_first=True)

    def restart_above_remote(
        self,
        offset: int,
        log_start_offset: int,
        epochs: Iterable[tuple[int, int]],
        producers: bytes | None = None,
    ) -> None:
        """Remove everything here; the next record gets `offset`, and remote storage has the earlier ones.

        `producers` is the snapshot of the producers at that offset. Raises CorruptSnapshotError before any change.
        """
        entries = None if producers is None else decode_snapshot(producers)
        kept = [(epoch, start) for epoch, start in epochs if start < offset]
        self.truncate_fully_and_start_at(offset)
        self.log_start_offset = log_start_offset
        for epoch, start in kept:
            self.epochs.assign(epoch, start)
        self.epochs.truncate_from_start(log_start_offset)
        try:
            self.epochs.write()
            if entries is not None:
                self.producers.restore(entries)
                self.producers.take_snapshot(offset)
        except OSError as error:
            self.go_offline("restarted", error)

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete the records below `offset`, and segments completely below it."""
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is behind the end, {self.log_end_offset}"
            )
        if offset > self.log_start_offset:
            self._start_at(offset)
            self._delete_below(offset)

    def delete_old_segments(self, now_ms: int, upto: int) -> int:
        """Delete the segments named by retention.deletable_segments below `upto` (the high watermark). Return their
        number.
        """
        try:
            count = deletable_segments(
                self.segments, self.config, self.log_start_offset, now_ms, upto, self.copied_upto
            )
            if count == len(self.segments) and self._config.copies_segments and self.is_tiered:
                self.roll()  # the segment is copied before it is deleted
                count -= 1
            if count == len(self.segments):
                self.roll()
            self._delete_first(count, now_ms)
        except OSError as error:
            raise storage_error(f"cannot delete old segments of {self.path}", error) from error
        is_copied = self.is_tiered and self._config.copies_segments
        if count and not is_copied and self.segments.base_offset > self.log_start_offset:
            self._start_at(self.segments.base_offset)
        return count

    def _delete_below(self, offset: int) -> None:
        self._delete_first(self.segments.count_below(offset), int(time.time() * 1000))

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)

    def _delete_first(self, count: int, now_ms: int) -> None:
        if not count:
            return
        if count < len(self.segments):
            self.manifest.forget(0, self.segments[count].base_offset)
        self.segments.delete_first(count, now_ms + self.config.file_delete_delay_ms)
        logger.info(
            "[UnifiedLog partition=%s-%d] Deleted %d segments: the oldest one begins at offset %d",
            self.topic,
            self.partition,
            count,
            self.segments.base_offset,
        )
        self.producers.remove_snapshots_before(self.segments.base_offset)
        self.recovery_point = max(self.recovery_point, self.segments.base_offset)

    def replace_segments(self, old: list[LogSegment], new: LogSegment, now_ms: int) -> None:
        """Replace sealed neighbours by the `.cleaned` segment made of them."""
        directory = os.fspath(self.path)
        try:
            self.manifest.forget(old[0].base_offset, old[-1].base_offset + 1)
            decide_swap(directory, new.base_offset)
        except OSError as error:
            raise storage_error(f"cannot swap a compacted segment into {directory}", error) from error
        try:
            self.segments.replace(old, new, now_ms + self.config.file_delete_delay_ms)
            finish_swap(directory, new.base_offset)
            for segment in old[1:]:
                self.producers.remove_snapshot(segment.base_offset)
            self._note_finished(new, new.refresh_tail(), is_sealed=True)
        except OSError as error:
            self.go_offline("compacted", error)

    def unlink_deleted(self, now_ms: int) -> None:
        """Unlink the files of deleted segments after their delay."""
        self.segments.unlink_deleted(now_ms)

    # Durability and closing

    def go_offline(self, what: str, error: OSError) -> NoReturn:
        """Take the log offline, because the state on disk is no longer known."""
        self.offline_reason = f"{self.path} could not be {what}: {error.strerror or error}"
        logger.error("%s", self.offline_reason)
        raise StorageError(self.offline_reason, error) from error

    def _void_flush(self) -> None:
        """Invalidate a running flush, because the log is about to be truncated."""
        with self._flush_lock:
            self.truncations += 1

    def flush(self, upto: int | None = None) -> None:
        """fsync everything above the recovery point, up to the end or to a segment's base offset.

        May run in a thread. A lock separates it from a truncation on the event loop, which invalidates its result.
        """
        truncations = self.truncations
        end = self.log_end_offset if upto is None else min(upto, self.log_end_offset)
        if end <= self.recovery_point:
            return
        try:
            self.epochs.write(sync=True)
        except OSError as error:
            if self.is_closed:
                return  # deleted or taken offline during the flush
            if not is_temporary(error):
                self.go_offline("flushed", error)
            # No data is lost: the disk may have room at the next flush.
            raise storage_error(f"cannot write the leader epochs of {self.path}", error) from error
        began = time.monotonic()
        try:
            self.segments.sync(self.recovery_point, end)
            sync_path(os.fspath(self.path))
            if not self._entry_synced:
                sync_path(os.path.dirname(self.path))  # makes a new log's directory durable
                self._entry_synced = True
        except OSError as error:
            if self.is_closed:
                return
            self.go_offline("flushed", error)
        with self._flush_lock:
            if truncations == self.truncations:
                self.recovery_point = max(self.recovery_point, end)
                self.last_flush_ms = int(time.time() * 1000)
        flush_times.add(int((time.monotonic() - began) * 1e6))

    def flush_due(self, now_ms: int) -> bool:
        """Return True if flush.ms has passed, or a sealed segment is not yet synced."""
        waits = self.recovery_point < self.log_end_offset
        return waits and (
            self.recovery_point < self.active.base_offset
            or now_ms - self.last_flush_ms >= self.config.flush_ms
        )

    def close(self) -> None:
        """Close the files so that the next start needs no recovery."""
        try:
            if self.offline_reason is None:
                self.active.write_indexes()
                self.epochs.write()
                self.flush()
                if self.log_end_offset > self.segments.base_offset or self.producers.producers:
                    self.producers.take_snapshot(self.log_end_offset)
                self._note_finished(self.active, self.log_end_offset, is_sealed=False)
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
        self._entry_synced = False  # the renamed directory must be found after a crash

    def retire(self, reason: str) -> None:
        """Refuse appends; running reads may finish."""
        self.offline_reason = reason

    def delete(self) -> None:
        """Close the log without saving state, and remove the directory."""
        self.abandon()
        shutil.rmtree(self.path, ignore_errors=True)
