"""The cleaner's output segment, under names that are discarded at startup after a crash."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress

from ottla.log.batch import header_at
from ottla.log.files.checkpoint import sync_path
from ottla.log.segments.index import OffsetIndex, TimeIndex
from ottla.log.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from ottla.log.segments.swap import CLEANED_SUFFIX
from ottla.log.segments.transaction_index import AbortedTransaction, TransactionIndex

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
