"""Compaction of a log into cleaned segments."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from ottla.log.batch import header_at
from ottla.log.cleaner.job import CleanedGroup, CleanJob, Progress, SourceSegment, group_segments
from ottla.log.cleaner.walk.walk import (
    ATTRIBUTES,
    LAST_OFFSET,
    NOTHING,
    PRODUCER_ID,
    RECORDS,
    Row,
    Rules,
    Walk,
)
from ottla.log.cleaner.worker.record_filter import (
    Chunk,
    ChunkReader,
    CleanedTransactions,
    RecordFilter,
    Throttle,
    decompressed,
    marker_key,
    runs,
)
from ottla.log.files.checkpoint import sync_path
from ottla.log.segments.index import AbortedTransaction, OffsetIndex, TimeIndex, TransactionIndex
from ottla.log.segments.partition_segments import CLEANED_SUFFIX
from ottla.log.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from ottla.protocol.batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG

# The cleaner's output segment, under names that are discarded at startup after a crash.

_SYNC_BYTES = 8 << 20
_LARGEST = 2**31 - 1


class CleanedSegment:
    """Invariant: the files hold complete batches in order, and the indexes cover only those.

    Owner: one job, in the cleaner process.
    """

    def __init__(self, directory: str, base_offset: int, index_interval: int) -> None:
        self.base_offset = base_offset
        self.size = 0
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self._index_interval = index_interval
        self._bytes_since_index = 0
        self._unsynced = 0
        self._paths = [
            segment_path(directory, base_offset, suffix) + CLEANED_SUFFIX
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        ]
        log, index, time_index, self._transactions_path = self._paths
        for path in self._paths:
            with suppress(FileNotFoundError):
                os.unlink(path)
        self._fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._offset_index = OffsetIndex(index, base_offset)
        self._time_index = TimeIndex(time_index, base_offset)
        self._offset_index.start_empty()
        self._time_index.start_empty()

    def append(self, data: memoryview) -> None:
        """Write batches with valid checksums."""
        self._note(data)
        done = 0
        while done < len(data):
            done += os.write(self._fd, data[done:])
        self.size += len(data)
        if self.size > _LARGEST:
            raise OverflowError("the cleaned segment is larger than a segment can be")
        self._unsynced += len(data)
        if self._unsynced >= _SYNC_BYTES:
            # Write out gradually: one large fsync at the end would delay the broker's own writes.
            start_write_out(self._fd, self.size - self._unsynced, self._unsynced)
            self._unsynced = 0

    def _note(self, data: memoryview) -> None:
        at = 0
        while at < len(data):
            header = header_at(data, at)
            last_offset = header.last_offset
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = last_offset
            if self._bytes_since_index > self._index_interval:
                self._offset_index.append(last_offset, self.size + at)
                self._time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
                self._bytes_since_index = 0
            size = header.size
            self._bytes_since_index += size
            at += size

    def finish(self, aborted: Sequence[AbortedTransaction], modified: float) -> None:
        """Make all files durable. After that they can replace their source segments."""
        self._time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self._offset_index.write(create=True)
        self._time_index.write(create=True)
        transactions = TransactionIndex(self._transactions_path)
        for transaction in aborted:
            transactions.append(transaction)
        os.close(self._fd)
        self._fd = -1
        for step in (wait_for_write_out, sync_path):  # two loops, so that all files share one journal commit
            for path in self._paths:
                with suppress(FileNotFoundError):
                    step(path)
        # The age of a segment without timestamps is that of its file.
        os.utime(self._paths[0], (modified, modified))

    def discard(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        for path in self._paths:
            with suppress(OSError):
                os.unlink(path)


_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4


def _load() -> ctypes._NamedFuncPointer | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function


_sync_file_range = _load()


def start_write_out(fd: int, position: int, size: int) -> None:
    """Start writing a range to disk, without waiting and without the journal commit of an fsync.

    A commit delays all writers on the same file system, including the broker's appends. The final fsync of a segment is
    short if its data is already on disk.
    """
    if _sync_file_range is not None:
        _sync_file_range(fd, position, size, _WRITE)


def wait_for_write_out(path: str) -> None:
    """Write all data of a file to disk and wait. Only fsync makes it durable."""
    if _sync_file_range is None:
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync_file_range(fd, 0, 0, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)
    finally:
        os.close(fd)


# Compaction of one log as in Kafka: index the last offset of each key, then copy the records still needed.
#
# The first pass reads the dirty section and records the last offset of each key until the map is full. The second pass
# copies every segment below that point, group by group, without superseded records.


class CannotClean(Exception):
    """Reason for the operator why a log cannot be compacted."""


class Compaction:
    """Reads sealed segments and writes `.cleaned` files beside them, without changing files in use.

    Owner: the cleaner process, one job.
    """

    def __init__(
        self, job: CleanJob, walk: Walk, pause: Callable[[float], None], report: Callable[[Progress], None]
    ) -> None:
        self._job = job
        self._walk = walk
        self._send_report = report
        self._throttle = Throttle(job.max_bytes_per_second, pause)
        self._reader = ChunkReader(walk, job.io_buffer_size, self._throttle)
        self.progress = Progress()

    def run(self) -> Iterator[CleanedGroup]:
        """Yield each group as soon as its files are complete and durable."""
        job, progress = self._job, self.progress
        aborted = self._aborted_transactions()
        latest = progress.latest_offset = self._index(aborted)
        progress.keys = self._walk.keys
        if latest < job.first_dirty_offset:
            raise CannotClean(
                f"the keys of one batch do not fit into {job.dedupe_buffer_size} bytes: "
                "raise log.cleaner.dedupe.buffer.size"
            )
        rules = Rules(latest, job.now_ms, job.now_ms + job.delete_retention_ms)
        record_filter = RecordFilter(self._walk, rules, CleanedTransactions(aborted), job.producers)
        sources = [_with_indexes(job.directory, s) for s in job.segments if s.base_offset <= latest]
        for group in group_segments(
            sources, job.segment_bytes, job.segment_index_bytes, job.first_uncleanable_offset
        ):
            yield self._clean(group, record_filter)

    # First pass

    def _index(self, aborted: list[AbortedTransaction]) -> int:
        """Fill the map from the dirty section. Return the last offset that it covers completely."""
        job = self._job
        transactions = CleanedTransactions(aborted)
        latest = NOTHING
        for at, segment in enumerate(job.segments):
            end = (
                job.segments[at + 1].base_offset
                if at + 1 < len(job.segments)
                else job.first_uncleanable_offset
            )
            if end <= job.first_dirty_offset:
                continue
            path = segment_path(job.directory, segment.base_offset, LOG_SUFFIX)
            for chunk in self._reader.chunks(path, segment.size):
                reached, full = self._index_chunk(chunk, transactions)
                latest = max(latest, reached)
                self._report()
                if full:
                    return latest
            latest = max(latest, end - 1)  # offsets missing at the end will never appear
        return latest

    def _index_chunk(self, chunk: Chunk, transactions: CleanedTransactions) -> tuple[int, bool]:
        start, walk = self._job.first_dirty_offset, self._walk
        latest = NOTHING
        for rows, is_compressed in runs(chunk.rows):
            skip = bytes(_is_skipped(chunk.data, row, transactions) for row in rows)
            if not is_compressed:
                taken = walk.index(chunk.data, rows, skip, start)
            elif skip[0]:
                taken = 1
            else:
                plain, row = decompressed(chunk.data, rows[0])
                taken = walk.index(plain, [row], skip, start)
            if taken and rows[taken - 1][LAST_OFFSET] >= start:
                latest = rows[taken - 1][LAST_OFFSET]
            if taken < len(rows):
                return latest, True
        return latest, False

    def _aborted_transactions(self) -> list[AbortedTransaction]:
        directory = self._job.directory
        return [
            entry
            for base in self._job.transaction_indexes
            for entry in TransactionIndex(segment_path(directory, base, TRANSACTION_INDEX_SUFFIX)).entries
        ]

    # Second pass

    def _clean(self, group: list[SourceSegment], record_filter: RecordFilter) -> CleanedGroup:
        job, progress = self._job, self.progress
        cleaned = CleanedSegment(job.directory, group[0].base_offset, job.index_interval_bytes)
        last = next((s for s in reversed(group) if s.size), group[-1])
        modified = 0.0
        try:
            for segment in group:
                path = segment_path(job.directory, segment.base_offset, LOG_SUFFIX)
                for chunk in self._reader.chunks(path, segment.size):
                    # After a crash, startup treats the end of the new segment as the end of the replaced ones.
                    is_end = chunk.is_last and segment is last
                    for part in record_filter.filter(chunk, keep_last=is_end):
                        cleaned.append(part)
                        progress.bytes_written += len(part)
                        self._throttle.took(len(part))
                    progress.records_read, progress.records_kept = record_filter.records, record_filter.kept
                    self._report()
                modified = os.stat(path).st_mtime
            cleaned.finish(record_filter.take_aborted(), modified)
        except BaseException:
            cleaned.discard()
            raise
        return CleanedGroup(
            [segment.base_offset for segment in group],
            cleaned.size,
            cleaned.max_timestamp,
            cleaned.offset_of_max_timestamp,
        )

    def _report(self) -> None:
        self.progress.bytes_read = self._reader.bytes_read
        self._send_report(self.progress)


def _is_skipped(data: memoryview, row: Row, transactions: CleanedTransactions) -> bool:
    """Return True if a batch's keys do not count: markers have none, and aborted records are invisible."""
    attributes = row[ATTRIBUTES]
    if attributes & CONTROL_FLAG:
        transactions.marker_is_spent(row[PRODUCER_ID], row[LAST_OFFSET], marker_key(data, row))
        return True
    if attributes & TRANSACTIONAL_FLAG:
        return transactions.is_aborted(row[PRODUCER_ID], row[LAST_OFFSET])
    return row[RECORDS] == 0


def _with_indexes(directory: str, segment: SourceSegment) -> SourceSegment:
    return segment._replace(
        index_size=_size(segment_path(directory, segment.base_offset, INDEX_SUFFIX)),
        time_index_size=_size(segment_path(directory, segment.base_offset, TIME_INDEX_SUFFIX)),
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
