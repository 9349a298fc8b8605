"""One segment of a partition: a `.log` file and its indexes."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from typing import NamedTuple

from ottla.log.batch import BatchScan, fault_of, header_at, order_fault
from ottla.log.config import LONG_MAX, CorruptSegmentError, LogConfig, storage_error
from ottla.log.files.descriptors import SegmentFile
from ottla.log.files.segment_manifest import NO_FILE, SegmentNote
from ottla.log.segments.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
)
from ottla.log.segments.open_files import active_files, sealed_files
from ottla.protocol.batch_header import BATCH_OVERHEAD, BatchHeader

logger = logging.getLogger(__name__)

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"

RELATIVE_OFFSET_MAX = 2**31 - 1
LOCATE_BYTES = 4096 + 1024


class BatchAt(NamedTuple):
    position: int
    header: BatchHeader


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


class LogSegment:
    """Invariant: [0, size) of the file is a chain of complete batches with rising offsets, all at or above
    `base_offset` and below the next segment's; the indexes cover only those batches.

    The segment that takes appends (`takes_appends`) keeps its descriptor unless descriptors run short; a sealed one
    opens it for reads. Bytes below `unverified_end` were found on disk and not scanned: their checksums are verified
    before they are served for the first time. Owner: the log's owner.
    """

    # fmt: off
    __slots__ = (
        "__weakref__",
        "_roll_ms",
        "_verified",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "file",
        "index_full",
        "index_interval",
        "last_header",
        "max_index_entries",
        "max_offset",
        "max_size",
        "max_time_index_entries",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "roll_after_time",
        "roll_after_timestamp",
        "size",
        "suffix",
        "takes_appends",
        "time_index",
        "transaction_index",
        "unverified_end",
    )
    # fmt: on

    def __init__(self, directory: str, base_offset: int, config: LogConfig, *, jitter_ms: int = 0) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.max_offset = base_offset + RELATIVE_OFFSET_MAX
        self.size = 0
        self.suffix = ""
        self.file: SegmentFile | None = None
        self.takes_appends = False
        self.offset_index = OffsetIndex(segment_path(directory, base_offset, INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(segment_path(directory, base_offset, TIME_INDEX_SUFFIX), base_offset)
        self.transaction_index = TransactionIndex(
            segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX)
        )
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self.last_header: BatchHeader | None = None  # found by `refresh_tail`
        self.bytes_since_index = 0
        self.index_full = False
        self.unverified_end = 0
        self._verified: list[tuple[int, int]] = []
        self.created_ms = int(time.time() * 1000)
        self.roll_after_timestamp = LONG_MAX
        self.roll_after_time = LONG_MAX
        self._roll_ms = 0
        self.configure(config, jitter_ms)

    @property
    def path(self) -> str:
        return segment_path(self.directory, self.base_offset, LOG_SUFFIX + self.suffix)

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """Paths of all files. Index files may be missing."""
        return self.path, self.offset_index.path, self.time_index.path, self.transaction_index.path

    def configure(self, config: LogConfig, jitter_ms: int) -> None:
        self.index_interval = config.index_interval_bytes
        self.max_size = config.segment_bytes
        self.max_index_entries = config.segment_index_bytes // OFFSET_ENTRY_SIZE
        # One entry stays free for the last timestamp, written when the segment is sealed.
        self.max_time_index_entries = config.segment_index_bytes // TIME_ENTRY_SIZE - 1
        roll_ms: int = max(0, config.max_segment_ms - jitter_ms)
        if self.roll_after_timestamp < LONG_MAX:
            self.roll_after_timestamp = min(LONG_MAX, self.roll_after_timestamp - self._roll_ms + roll_ms)
        if self.roll_after_time < LONG_MAX:
            self.roll_after_time = min(LONG_MAX, self.roll_after_time - self._roll_ms + roll_ms)
        self._roll_ms = roll_ms

    def create_files(self) -> None:
        """Start as the new, empty active segment."""
        self._take_appends(create=True)
        # Index files are created with their first entries, or on sealing: creating a file costs more than everything
        # else about an empty partition.
        for path in self.paths[1:]:
            with suppress(FileNotFoundError):
                os.unlink(path)
        self.offset_index.start_empty()
        self.time_index.start_empty()
        self.transaction_index.start_empty()

    def activate(self) -> None:
        """Accept appends (again) after a log was opened or truncated."""
        sealed_files.drop(self)
        self._take_appends()
        if self.size:
            self._set_roll_time(self.first_timestamp())

    def _take_appends(self, *, create: bool = False) -> None:
        active_files.open(self, create=create)
        self.takes_appends = True

    def open_file(self) -> SegmentFile:
        return self.file or (active_files if self.takes_appends else sealed_files).open(self)

    def close_file(self) -> None:
        """Close the descriptor and refuse further appends."""
        self.takes_appends = False
        sealed_files.drop(self)
        active_files.drop(self)
        self.file = None

    def _set_roll_time(self, first_timestamp: int) -> None:
        if first_timestamp >= 0:
            self.roll_after_timestamp = min(LONG_MAX, first_timestamp + self._roll_ms)
            self.roll_after_time = LONG_MAX
        else:
            self.roll_after_timestamp = LONG_MAX
            self.roll_after_time = min(LONG_MAX, self.created_ms + self._roll_ms)

    def is_due_to_roll(self, now_ms: int) -> bool:
        """Return True if segment.ms has passed for a segment with records, by the clock and by their timestamps."""
        if not self.size or now_ms <= self.created_ms + self._roll_ms:
            return False
        return now_ms > self.roll_after_timestamp or now_ms > self.roll_after_time

    # Appending

    def append(self, data: memoryview, size: int, last_offset: int, max_timestamp: int) -> int:
        """Write one batch completely or not at all. Return its position."""
        position = self.write(data, size)
        if not position:
            self._set_roll_time(max_timestamp)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_index > self.index_interval:
            self._add_index_entries(last_offset, position)
        self.bytes_since_index += size
        return position

    def write(self, data: memoryview, size: int) -> int:
        """Append bytes atomically: any failure truncates the file to its previous size."""
        file, position = self.file, self.size
        if file is None:
            file = self._open_again()
        try:
            done = os.write(file.fd, data)
            while done < size:
                done += os.write(file.fd, data[done:])
        except OSError as error:
            failure = storage_error(f"cannot append to {self.path}", error)
            try:
                os.ftruncate(file.fd, position)
            except OSError as second:
                # Bytes after `position` are not a batch: nothing may ever be written after them.
                self.close_file()
                raise storage_error(f"cannot undo a failed append to {self.path}", second) from error
            raise failure from error
        self.size = position + size
        return position

    def _open_again(self) -> SegmentFile:
        assert self.takes_appends, "only the active segment is written"
        try:
            return active_files.open(self)
        except OSError as error:
            raise storage_error(f"cannot append to {self.path}", error) from error

    def note(self, header: BatchHeader, position: int) -> None:
        """Index a batch already in the file: written with others, or found by recovery."""
        if not position:
            self._set_roll_time(header.max_timestamp)
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.offset_of_max_timestamp = header.last_offset
        if self.bytes_since_index > self.index_interval:
            self._add_index_entries(header.last_offset, position)
        self.bytes_since_index += header.size

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        # A failed group stays in memory and is retried with the next one.
        with suppress(OSError):
            self.offset_index.append(last_offset, position)
        with suppress(OSError):
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.bytes_since_index = 0
        self._repair_indexes()
        self.index_full = (
            len(self.offset_index) >= self.max_index_entries
            or len(self.time_index) >= self.max_time_index_entries
        )

    def write_indexes(self) -> None:
        """Complete the index files for sealing or closing. Kafka requires even empty ones."""
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self._repair_indexes()
        self.offset_index.write(create=True)
        self.time_index.write(create=True)

    def _repair_indexes(self) -> None:
        if self.offset_index.is_damaged or self.time_index.is_damaged:
            self.rebuild_indexes()

    def seal(self) -> None:
        self.write_indexes()
        self.transaction_index.sync()
        file = self.file
        self.close_file()
        if file is not None:
            sealed_files.keep(self, file)

    def release(self) -> None:
        """Drop state that can be reread from disk."""
        self.offset_index.unload()
        self.time_index.unload()
        self.transaction_index.unload()

    # Reading

    def locate(self, offset: int, *, repair: bool = True) -> BatchAt | None:
        """Return the first batch that ends at or after `offset`, or None.

        Rebuilds a wrong index, unless the caller is not the owner.
        """
        if not self.size:
            return None
        entry_offset, position = self.offset_index.lookup(offset)
        if self.offset_index.is_damaged and repair:
            self.rebuild_indexes()
            entry_offset, position = self.offset_index.lookup(offset)
        if position:
            try:
                return self._walk(offset, position, entry_offset)
            except CorruptSegmentError as error:
                found = self._walk(
                    offset, 0, LONG_MAX
                )  # raises again if the data rather than the index is bad
                if repair:
                    logger.warning("%s is wrong and is built again: %s", self.offset_index.path, error)
                    self.rebuild_indexes()
                return found
        return self._walk(offset, 0, LONG_MAX)

    def _walk(self, offset: int, position: int, entry_offset: int) -> BatchAt | None:
        fd, size = self.open_file().fd, self.size
        chunk, chunk_start = b"", position
        if position >= size:
            raise CorruptSegmentError(self.path, position, "the index points behind the end")
        least = self.base_offset if not position else 0
        while position < size:
            at = position - chunk_start
            if at + BATCH_OVERHEAD > len(chunk):
                chunk = os.pread(fd, min(LOCATE_BYTES, size - position), position)
                chunk_start, at = position, 0
                if len(chunk) < BATCH_OVERHEAD:
                    raise CorruptSegmentError(self.path, position, "the batch header is cut short")
            header = header_at(chunk, at)
            fault = fault_of(header)
            if fault is None and position + header.size > size:
                fault = "the batch is cut short"
            if fault is None and entry_offset < LONG_MAX and header.base_offset > min(entry_offset, offset):
                fault = f"the index names offset {entry_offset} where {header.base_offset} is"
            if fault is None and header.base_offset < least:
                fault = f"offset {header.base_offset} where {least} or more is expected"
            if fault is not None:
                raise CorruptSegmentError(self.path, position, fault)
            last_offset = header.base_offset + header.last_offset_delta
            if last_offset >= offset:
                return BatchAt(position, header)
            entry_offset = LONG_MAX
            least = last_offset + 1
            position += header.size
        return None

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the batch headers. The batches themselves are checked on reads."""
        self.offset_index.start_empty()
        self.time_index.start_empty()
        since, largest, offset_of_largest = 0, -1, self.base_offset
        least = self.base_offset
        scan = self.batches()
        for position, header in scan:
            if not least <= header.base_offset <= self.max_offset - header.last_offset_delta:
                raise CorruptSegmentError(
                    self.path, position, f"offset {header.base_offset} where {least} or more is expected"
                )
            least = header.last_offset + 1
            if header.max_timestamp > largest:
                largest, offset_of_largest = header.max_timestamp, header.last_offset
            if since > self.index_interval:
                self.offset_index.append(header.last_offset, position)
                self.time_index.maybe_append(largest, offset_of_largest)
                since = 0
            since += header.size
        self.time_index.maybe_append(largest, offset_of_largest)
        self.offset_index.rewrite()
        self.time_index.rewrite()
        if scan.invalid is not None:
            raise CorruptSegmentError(self.path, scan.invalid.position, scan.invalid.reason)

    def offset_after(self, position: int, end_offset: int) -> int:
        """Return an offset that no batch before `position` reaches; `end_offset` is the segment's end.

        Aborted transactions are searched below it, so a wrong index must not make it smaller.
        """
        found = self.offset_index.first_behind(position)
        if found is None or found[1] + BATCH_OVERHEAD > self.size:
            return end_offset
        header = header_at(os.pread(self.open_file().fd, BATCH_OVERHEAD, found[1]))
        if fault_of(header) is not None or not header.base_offset <= found[0] < end_offset:
            return end_offset
        return found[0] + 1

    def batches(self, position: int = 0) -> BatchScan:
        return BatchScan(self.open_file().fd, position, self.size, check_crc=False)

    def first_timestamp(self) -> int:
        for _, header in self.batches():
            return header.max_timestamp
        return -1

    def largest_timestamp(self) -> int:
        """Return the timestamp for retention. A segment without timestamps has the age of its file."""
        timestamp, _ = self.max_timestamp_and_offset()
        return timestamp if timestamp >= 0 else int(os.stat(self.path).st_mtime * 1000)

    def max_timestamp_and_offset(self) -> tuple[int, int]:
        if self.max_timestamp < 0 and not self.takes_appends:
            self.max_timestamp, self.offset_of_max_timestamp = self._largest_in_time_index()
        return self.max_timestamp, self.offset_of_max_timestamp

    def _largest_in_time_index(self) -> tuple[int, int]:
        """Return the last entry if that batch exists: a wrong one would make retention delete the segment."""
        timestamp, offset = self.time_index.last()
        if timestamp < 0:
            return timestamp, offset
        found = self.locate(offset, repair=False)
        if found is not None and found.header.max_timestamp == timestamp:
            return timestamp, offset
        logger.warning("%s does not end with a timestamp of %s", self.time_index.path, self.path)
        self.time_index.distrust()
        headers = [(header.max_timestamp, -header.last_offset) for _, header in self.batches()]
        timestamp, offset = max(headers, default=(-1, -self.base_offset))
        return timestamp, -offset

    def verify(self, position: int, end: int, end_offset: int = LONG_MAX) -> int:
        """Verify checksums and order of the unverified batches in [position, end), all below `end_offset`.

        Returns the end of the valid part: `end`, or the first corrupt batch; of two batches out of order, the first.
        Only the header of a batch cut by `end` is checked: a client cannot use it.
        """
        limit = min(end, self.unverified_end)
        at = position
        while at < limit:
            known = next((stop for start, stop in self._verified if start <= at < stop), at)
            if known > at:
                at = known
                continue
            scan = BatchScan(self.open_file().fd, at, limit, check_crc=True)
            reached, disorder = self._in_order(scan, end_offset)
            if reached > at:
                self._verified = _with_range(self._verified, at, reached)
                if self._verified == [(0, self.unverified_end)]:
                    self.unverified_end, self._verified = 0, []
            if disorder:
                return reached
            if scan.invalid is None or (scan.invalid.cut and limit < self.unverified_end):
                return end
            return reached
        return end

    def _in_order(self, scan: BatchScan, end_offset: int) -> tuple[int, bool]:
        """Return the valid end of the scan, and True if the next two batches are out of order."""
        last: BatchAt | None = None
        for position, header in scan:
            if header.last_offset >= end_offset:
                return position, True
            if last is not None and order_fault(last.header, header) is not None:
                return last.position, True
            last = BatchAt(position, header)
        if last is not None and scan.position + BATCH_OVERHEAD <= self.size:
            following = header_at(os.pread(self.open_file().fd, BATCH_OVERHEAD, scan.position))
            if fault_of(following) is None and order_fault(last.header, following) is not None:
                return last.position, True
        return scan.position, False

    # Truncation

    def truncate_to(self, offset: int) -> int:
        """Remove the batches that reach `offset`. Return the remaining end offset."""
        found = self.locate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if found is None:
            return offset
        file = self.file or SegmentFile(self.path, writable=True)
        os.ftruncate(file.fd, found.position)
        self.size = found.position
        self.unverified_end = min(self.unverified_end, self.size)
        self._verified = [(a, min(b, self.size)) for a, b in self._verified if a < self.size]
        self.index_full = False
        self.refresh_tail()
        return min(offset, found.header.base_offset)

    def refresh_tail(self) -> int:
        """Load the part after the last index entry. Return the segment's end offset.

        Raises CorruptSegmentError if index and file contradict each other.
        """
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index.last()
        self.bytes_since_index = 0
        if not self.size:
            self.roll_after_timestamp = self.roll_after_time = LONG_MAX
            return self.base_offset
        entry_offset, position = self.offset_index.last()
        if position >= self.size:
            raise CorruptSegmentError(
                self.path, self.size, f"it ends there, and {self.offset_index.path} points to byte {position}"
            )
        end_offset = self.base_offset
        scan = self.batches(position)
        for at, header in scan:
            if at == position and position and header.base_offset > entry_offset:
                raise CorruptSegmentError(
                    self.path, at, f"{self.offset_index.path} says that offset {entry_offset} is there"
                )
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset
            end_offset = header.last_offset + 1
            self.last_header = header
        if scan.invalid is not None:
            raise CorruptSegmentError(self.path, scan.invalid.position, scan.invalid.reason)
        return end_offset

    # Manifest

    def first_crc_of_file(self) -> int | None:
        """Return the CRC in the first batch's header, which identifies the file; None without a batch."""
        file = self.file or SegmentFile(self.path, writable=False)
        header = os.pread(file.fd, BATCH_OVERHEAD, 0)
        return header_at(header).crc if len(header) == BATCH_OVERHEAD else None

    def note_for_manifest(self, end_offset: int, *, is_sealed: bool) -> SegmentNote:
        """Describe the segment after its index files were completed."""
        max_timestamp, offset = self.max_timestamp_and_offset()
        return SegmentNote(
            self.base_offset,
            is_sealed,
            self.size,
            end_offset,
            max_timestamp,
            offset,
            self.first_crc_of_file(),
            self.offset_index.crc,
            self.time_index.crc,
            self.transaction_index.crc,
        )

    def believe(self, note: SegmentNote) -> None:
        """Trust the manifest about a sealed segment, or one closed by a clean shutdown."""
        self.offset_index.expected_crc = _of_file(note.index_crc)
        self.time_index.expected_crc = _of_file(note.time_index_crc)
        self.max_timestamp = note.max_timestamp
        self.offset_of_max_timestamp = note.offset_of_max_timestamp

    def moved_to(self, directory: str) -> None:
        """Update the paths after a rename of the directory."""
        self.directory = directory
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.path = os.path.join(directory, os.path.basename(index.path))
        sealed_files.drop(self)
        if self.file is not None:
            self.file.path = self.path

    def rename_deleted(self) -> list[str]:
        """Rename the files out of the log. They are unlinked later, because readers may have them open."""
        sealed_files.drop(self)
        renamed = []
        for path in self.paths:
            with suppress(FileNotFoundError):
                os.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
            # A lookup in a thread may still open files of this segment, and another one may reuse their names.
            self.suffix = DELETED_SUFFIX
        for index in (self.offset_index, self.time_index, self.transaction_index):
            index.path += DELETED_SUFFIX
        return renamed


def _of_file(crc: int | None) -> int | None:
    return None if crc == NO_FILE else crc


def _with_range(ranges: list[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for a, b in sorted([*ranges, (start, stop)]):
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged
