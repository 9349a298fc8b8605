"""Reads that would wait for the disk: detected on the event loop, executed in a thread.

A read uses the index, looks at one or two batch headers, and verifies data not yet checked since startup. All of this
is quick in memory. On a busy disk each step can take longer than everything else that a broker does in a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ottla.log.files.descriptors import is_in_memory, read_through
from ottla.log.partition_log import PartitionLog
from ottla.log.segments.index import OffsetIndex
from ottla.log.segments.open_files import sealed_files
from ottla.log.segments.segment import LOCATE_BYTES


class ColdRange(NamedTuple):
    """A range for a thread to read. It refers to files by name only, and shares nothing with the log's owner."""

    path: str
    index_path: str
    base_offset: int
    offset: int
    size: int

    def read(self) -> None:
        """Load index and data into memory. Blocks; runs in a thread. Errors are left to the actual read."""
        try:
            _, position = OffsetIndex(self.index_path, self.base_offset).lookup(self.offset)
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            read_through(fd, position, self.size)
        except OSError:
            pass
        finally:
            os.close(fd)


def read_cold(ranges: Iterable[ColdRange]) -> None:
    """Runs in a thread."""
    for each in ranges:
        each.read()


def cold_range(log: PartitionLog, offset: int, max_bytes: int, *, whole: bool = False) -> ColdRange | None:
    """Return the range to load before a read, or None (nearly always) if it is in memory.

    Most readers send the bytes later and need only the position now; `whole` is for readers that look at all bytes.
    """
    if log.reads_tail(offset):
        return None
    segment = log.segments.at_or_after(offset)[0]
    size = min(max_bytes, segment.size)
    file = segment.file or sealed_files.peek(segment)
    if file is not None and segment.offset_index.is_loaded:
        _, position = segment.offset_index.lookup(offset)
        needed = max_bytes if whole or position < segment.unverified_end else LOCATE_BYTES
        needed = min(needed, segment.size - position)
        if needed <= 0 or is_in_memory(file.fd, position, needed):
            return None
    return ColdRange(segment.path, segment.offset_index.path, segment.base_offset, offset, size)
