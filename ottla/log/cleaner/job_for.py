"""From a log that is due to the job for the cleaner's process."""

from __future__ import annotations

from ottla.log.cleaner.cleanable import CleanableLog
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.cleaner.job import CleanJob
from ottla.log.cleaner.worker.grouping import SourceSegment
from ottla.log.partition_log import PartitionLog


def job_for(found: CleanableLog, config: CleanerConfig, now_ms: int) -> CleanJob:
    log = found.log
    share = max(1, config.threads)
    return CleanJob(
        directory=str(log.path),
        segments=[SourceSegment(segment.base_offset, segment.size) for segment in found.segments],
        first_dirty_offset=found.first_dirty_offset,
        upper_bound=found.upper_bound,
        segment_bytes=log.config.segment_bytes,
        segment_index_bytes=log.config.segment_index_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        dedupe_buffer_size=config.dedupe_buffer_size // share,
        load_factor=config.io_buffer_load_factor,
        io_buffer_size=config.io_buffer_size // share,
        max_bytes_per_second=min(1e15, config.io_max_bytes_per_second / share),
        producers=_last_records(log, found.upper_bound),
        transaction_indexes=[segment.base_offset for segment in log.segments],
    )


def _last_records(log: PartitionLog, upper_bound: int) -> list[tuple[int, int, int]]:
    """Where the producers that are remembered have written last, as far as the cleaner can meet it."""
    found = []
    for producer_id, entry in log.producers.producers.items():
        last_offset = entry.batches[-1][3] if entry.batches else -1
        if last_offset < upper_bound:
            found.append((producer_id, last_offset, entry.epoch))
    return found
