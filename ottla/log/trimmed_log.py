"""A log that can be cut: where it begins and ends, and which segments it has, apart from appends."""

from __future__ import annotations

import logging
import os
import time
from threading import Lock

from ottla.log.config import LogConfig
from ottla.log.errors import StorageError, storage_error
from ottla.log.readable_log import ReadableLog
from ottla.log.recovery import LoadedLog, lengthen_memory, replay_producers
from ottla.log.retention import deletable_segments
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.swap import decide_swap, finish_swap
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class TrimmedLog(ReadableLog):
    """What truncation, retention and compaction do to a log. Owner: the event loop."""

    _config: LogConfig
    _jitter_ms: int

    def __init__(self, path: str, topic: str, partition: int, topic_id: bytes, loaded: LoadedLog) -> None:
        super().__init__(path, topic, partition, topic_id, loaded)
        self._flush_lock = Lock()

    def roll(self, base_offset: int | None = None) -> LogSegment:
        """Seal the active segment and start a new one at the log end offset."""
        old = self.active
        base = self.log_end_offset if base_offset is None else base_offset
        if base == old.base_offset:
            return old
        old.write_indexes()
        self.epochs.write()
        self.producers.take_snapshot(base)
        segment = LogSegment(old.directory, base, self._config, jitter_ms=self._jitter_ms)
        segment.create_files()
        old.seal()
        self.segments.append(segment)
        self.active = segment
        self._recent.clear()
        return segment

    def truncate_to(self, offset: int) -> None:
        """Remove everything at or above `offset`. A batch that contains it goes as a whole."""
        if offset >= self.log_end_offset:
            # An epoch in which nothing was written may have begun at the end; another leader knows nothing of it.
            self.epochs.truncate_from_end(offset)
            self._latest_epoch = self.epochs.latest
            return
        if offset <= self.segments.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        with self._flush_lock:
            self.truncations += 1
        try:
            # Snapshots go first: one above the end of the log would be believed after a crash.
            self.producers.remove_snapshots_after(offset)
            self.segments.discard_above(offset)
            active = self.active = self.segments[-1]
            self._recent.clear()
            end = active.truncate_to(offset)
            active.activate()
            active.configure(self._config, self._jitter_ms)
            self.log_end_offset = end
            self.log_start_offset = min(self.log_start_offset, end)
            self.recovery_point = min(self.recovery_point, end)
            self.first_dirty_offset = min(self.first_dirty_offset, end)
            self.epochs.truncate_from_end(end)
            self._latest_epoch = self.epochs.latest
            self.producers.remove_snapshots_after(end)
            segments = list(self.segments)
            replay_producers(
                self.producers, segments, self.producers.load_latest(end, segments[0].base_offset), end
            )
            lengthen_memory(self.producers, segments)
        except OSError as error:
            self._go_offline("truncated", error)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything; the next record gets `offset`."""
        with self._flush_lock:
            self.truncations += 1
        try:
            self.producers.clear()
            active = LogSegment(os.fspath(self.path), offset, self._config, jitter_ms=self._jitter_ms)
            self.segments.replace_all([active])
            active.create_files()
            self.active = active
            self._recent.clear()
            self.epochs.clear()
            self._latest_epoch = self.epochs.latest
        except OSError as error:
            self._go_offline("truncated", error)
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.first_dirty_offset = min(self.first_dirty_offset, offset)

    def _go_offline(self, what: str, error: OSError) -> None:
        """What is on disk is no longer known: going on would be a promise without ground."""
        self.offline_reason = f"{self.path} could not be {what}: {error.strerror or error}"
        logger.error("%s", self.offline_reason)
        raise StorageError(self.offline_reason, error) from error

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete the records below `offset`; segments that are wholly below go with them."""
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is behind the end, {self.log_end_offset}"
            )
        if offset > self.log_start_offset:
            self._start_at(offset)
            self._delete_first(self.segments.count_below(offset), int(time.time() * 1000))

    def delete_old_segments(self, now_ms: int, upto: int) -> int:
        """Apply retention to what lies below `upto` (the high watermark); how many segments went."""
        try:
            count = deletable_segments(self.segments, self._config, self.log_start_offset, now_ms, upto)
            if count == len(self.segments):
                self.roll()
            self._delete_first(count, now_ms)
        except OSError as error:
            raise storage_error(f"cannot delete old segments of {self.path}", error) from error
        if self.segments.base_offset > self.log_start_offset:
            self._start_at(self.segments.base_offset)
        return count

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self._latest_epoch = self.epochs.latest

    def _delete_first(self, count: int, now_ms: int) -> None:
        if count:
            self.segments.delete_first(count, now_ms + self._config.file_delete_delay_ms)
            self.producers.remove_snapshots_before(self.segments.base_offset)
            self.recovery_point = max(self.recovery_point, self.segments.base_offset)

    def unlink_deleted(self, now_ms: int) -> None:
        """Remove the files of segments that were deleted long enough ago."""
        self.segments.unlink_deleted(now_ms)

    def replace_segments(self, old: list[LogSegment], new: LogSegment, now_ms: int) -> None:
        """Let a segment whose files are `.cleaned` take the place of the sealed neighbours it was made of."""
        directory = os.fspath(self.path)
        try:
            decide_swap(directory, new.base_offset)
        except OSError as error:
            raise storage_error(f"cannot swap a compacted segment into {directory}", error) from error
        try:
            self.segments.replace(old, new, now_ms + self._config.file_delete_delay_ms)
            finish_swap(directory, new.base_offset)
            for segment in old[1:]:
                self.producers.remove_snapshot(segment.base_offset)
        except OSError as error:
            self._go_offline("compacted", error)
