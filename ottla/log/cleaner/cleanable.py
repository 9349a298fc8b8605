"""Decide which part of a log is compactable and worth compacting, and build the job for LogCleaner."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ottla.log.cleaner.job import CleanJob, SourceSegment
from ottla.log.config import LONG_MAX, CleanerConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.segments.segment import LogSegment


@dataclass(frozen=True, slots=True)
class CleanableLog:
    """A log from the cleaner's point of view: its compacted part, and the segments to add to it."""

    log: PartitionLog
    segments: list[LogSegment]  # from the start to `first_uncleanable_offset`
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)

    @property
    def is_due(self) -> bool:
        return self.is_overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable(log: PartitionLog, last_stable_offset: int, now_ms: int) -> CleanableLog | None:
    """Return None if there is nothing to compact.

    Compaction never touches the active segment, uncommitted records, open transactions, and records younger than
    min.compaction.lag.ms. It processes whole segments only.
    """
    if len(log.segments) < 2 or log.offline_reason is not None:
        return None
    first_dirty = log.first_dirty_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        # Records were deleted, or the end of the log was lost: the clean part is unknown.
        first_dirty = log.log_start_offset
    sealed = list(log.segments)[:-1]
    ends = [segment.base_offset for segment in sealed[1:]] + [log.active.base_offset]
    youngest = now_ms - log.config.min_compaction_lag_ms
    chosen: list[LogSegment] = []
    clean = dirty = 0
    for segment, end in zip(sealed, ends, strict=True):
        if end > last_stable_offset:
            break
        if end <= first_dirty:
            clean += segment.size
        else:
            if log.config.min_compaction_lag_ms > 0 and segment.largest_timestamp() > youngest:
                break
            dirty += segment.size
        chosen.append(segment)
    if not dirty:
        return None
    return CleanableLog(
        log,
        chosen,
        first_dirty,
        ends[len(chosen) - 1],
        clean,
        dirty,
        _is_overdue(log, [s for s, end in zip(sealed, ends, strict=True) if end > first_dirty], now_ms),
    )


_first_timestamps: WeakKeyDictionary[LogSegment, int] = WeakKeyDictionary()


def _is_overdue(log: PartitionLog, dirty: list[LogSegment], now_ms: int) -> bool:
    """Return True if max.compaction.lag.ms has passed for the oldest uncompacted record."""
    if log.config.max_compaction_lag_ms == LONG_MAX:
        return False
    oldest = now_ms - log.config.max_compaction_lag_ms
    for segment in dirty:
        timestamp = _first_timestamps.get(segment)
        if timestamp is None:
            timestamp = _first_timestamps[segment] = segment.first_timestamp()
        if 0 < timestamp < oldest:
            return True
    return False


def job_for(found: CleanableLog, config: CleanerConfig, now_ms: int) -> CleanJob:
    log = found.log
    share = max(1, config.threads)
    return CleanJob(
        directory=str(log.path),
        segments=[SourceSegment(segment.base_offset, segment.size) for segment in found.segments],
        first_dirty_offset=found.first_dirty_offset,
        first_uncleanable_offset=found.first_uncleanable_offset,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        dedupe_buffer_size=config.dedupe_buffer_size // share,
        load_factor=config.io_buffer_load_factor,
        io_buffer_size=config.io_buffer_size // share,
        max_bytes_per_second=min(1e15, config.io_max_bytes_per_second / share),
        producers=_last_records(log, found.first_uncleanable_offset),
        transaction_indexes=[segment.base_offset for segment in log.segments],
    )


def _last_records(log: PartitionLog, first_uncleanable_offset: int) -> list[tuple[int, int, int]]:
    """Return the last writes of known producers, as far as the cleaner may meet them."""
    found = []
    for producer_id, entry in log.producers.producers.items():
        last_offset = entry.batches[-1][3] if entry.batches else -1
        if last_offset < first_uncleanable_offset:
            found.append((producer_id, last_offset, entry.epoch))
    return found
