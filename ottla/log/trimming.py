"""Removals from a log: truncation at the end, retention at the start, and compaction."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

from ottla.log.errors import storage_error
from ottla.log.recovery import rebuild_producers
from ottla.log.retention import deletable_segments
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.swap import decide_swap, finish_swap
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)


class LogTrimming:
    """Invariant: after each step files, offsets, epochs and producers of the log agree, or it is offline.

    Owner: the log, on the event loop.
    """

    __slots__ = ("_log",)

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    def truncate_to(self, offset: int) -> None:
        log = self._log
        if offset >= log.log_end_offset:
            # An epoch without records may have started at the end; other leaders do not know it.
            log.epochs.truncate_from_end(offset)
            return
        if offset <= log.segments.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        log.flushing.void()
        try:
            log.shrinks_to(offset)
            # Snapshots first: after a crash a snapshot above the end of the log would be trusted.
            log.producers.remove_snapshots_after(offset)
            log.segments.discard_above(offset)
            active = log.segments[-1]
            log.make_active(active)
            end = active.truncate_to(offset)
            active.activate()
            active.configure(log.config, log.jitter_ms)
            log.log_end_offset = end
            log.log_start_offset = min(log.log_start_offset, end)
            log.recovery_point = min(log.recovery_point, end)
            log.first_dirty_offset = min(log.first_dirty_offset, end)
            log.appended(is_first=True)
            log.epochs.truncate_from_end(end)
            log.producers.remove_snapshots_after(end)
            rebuild_producers(log.producers, list(log.segments), end)
        except OSError as error:
            log.go_offline("truncated", error)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        log = self._log
        log.flushing.void()
        try:
            log.shrinks_to(0)
            log.producers.clear()
            active = LogSegment(os.fspath(log.path), offset, log.config, jitter_ms=log.jitter_ms)
            log.segments.replace_all([active])
            active.create_files()
            log.make_active(active)
            log.epochs.clear()
        except OSError as error:
            log.go_offline("truncated", error)
        log.log_start_offset = log.log_end_offset = log.recovery_point = offset
        log.first_dirty_offset = min(log.first_dirty_offset, offset)
        log.appended(is_first=True)

    def advance_log_start_offset(self, offset: int) -> None:
        log = self._log
        if offset > log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is behind the end, {log.log_end_offset}"
            )
        if offset > log.log_start_offset:
            self._start_at(offset)
            self.delete_below(offset)

    def delete_old_segments(self, now_ms: int, upto: int) -> int:
        log = self._log
        try:
            count = deletable_segments(log.segments, log.config, log.log_start_offset, now_ms, upto)
            if count == len(log.segments):
                log.roll()
            self._delete_first(count, now_ms)
        except OSError as error:
            raise storage_error(f"cannot delete old segments of {log.path}", error) from error
        if log.segments.base_offset > log.log_start_offset:
            self._start_at(log.segments.base_offset)
        return count

    def delete_below(self, offset: int) -> None:
        self._delete_first(self._log.segments.count_below(offset), int(time.time() * 1000))

    def _start_at(self, offset: int) -> None:
        self._log.log_start_offset = offset
        self._log.epochs.truncate_from_start(offset)

    def _delete_first(self, count: int, now_ms: int) -> None:
        if not count:
            return
        log = self._log
        if count < len(log.segments):
            log.manifest.forget(0, log.segments[count].base_offset)
        log.segments.delete_first(count, now_ms + log.config.file_delete_delay_ms)
        logger.info(
            "[UnifiedLog partition=%s-%d] Deleted %d segments: the oldest one begins at offset %d",
            log.topic,
            log.partition,
            count,
            log.segments.base_offset,
        )
        log.producers.remove_snapshots_before(log.segments.base_offset)
        log.recovery_point = max(log.recovery_point, log.segments.base_offset)

    def replace_segments(self, old: list[LogSegment], new: LogSegment, now_ms: int) -> None:
        log = self._log
        directory = os.fspath(log.path)
        try:
            log.manifest.forget(old[0].base_offset, old[-1].base_offset + 1)
            decide_swap(directory, new.base_offset)
        except OSError as error:
            raise storage_error(f"cannot swap a compacted segment into {directory}", error) from error
        try:
            log.segments.replace(old, new, now_ms + log.config.file_delete_delay_ms)
            finish_swap(directory, new.base_offset)
            for segment in old[1:]:
                log.producers.remove_snapshot(segment.base_offset)
            log.note_finished(new, new.refresh_tail(), is_sealed=True)
        except OSError as error:
            log.go_offline("compacted", error)
