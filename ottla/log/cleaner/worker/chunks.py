"""Read the batches of a segment in chunks, verifying each checksum."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.batch import CRC_START, header_at
from ottla.log.cleaner.walk.walk import CHECKSUM, POSITION, SIZE, Row, Walk
from ottla.log.errors import CorruptSegmentError
from ottla.protocol.batch_header import BATCH_OVERHEAD


class Throttle:
    """Invariant: the average over any longer period stays below `rate` bytes per second.

    `pause` waits, and may end the job by raising. Owner: one job.
    """

    def __init__(
        self,
        rate: float,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._pause = pause
        self._clock = clock
        self._free_at = clock()

    def took(self, count: int) -> None:
        """Account for bytes read or written, and wait if they exceed the rate."""
        now = self._clock()
        self._free_at = max(self._free_at, now) + count / self._rate
        self._pause(max(0.0, self._free_at - now))


class Chunk(NamedTuple):
    """Complete batches, valid until the next chunk is read."""

    data: memoryview
    rows: Sequence[Row]
    is_last: bool
    position: int


class ChunkReader:
    """Buffer shared by all segments of a job. It grows to fit the largest batch. Owner: one job."""

    def __init__(self, walk: Walk, buffer_size: int, throttle: Throttle) -> None:
        self._walk = walk
        self._buffer = bytearray(max(buffer_size, 4096))
        self._throttle = throttle
        self.bytes_read = 0

    def chunks(self, path: str, size: int, position: int = 0) -> Iterator[Chunk]:
        """Yield the batches in [position, size) of a file. Raises CorruptSegmentError on anything else."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, position, size - position, os.POSIX_FADV_SEQUENTIAL)
            while position < size:
                count = self._read(fd, position, size)
                view = memoryview(self._buffer)[:count]
                rows, end, fault = self._walk.scan(view)
                if fault is not None and not rows:
                    raise CorruptSegmentError(path, position, fault)
                if not rows:
                    needed = header_at(view).size if count >= BATCH_OVERHEAD else BATCH_OVERHEAD
                    has_ended = count < min(
                        len(self._buffer), size - position
                    )  # the log was truncated in the meantime
                    if has_ended or needed <= count or position + needed > size:
                        raise CorruptSegmentError(path, position, "the batch is cut short")
                    del view
                    self._buffer = bytearray(needed)
                    continue
                for row in rows:
                    at = row[POSITION]
                    if crc32c(view[at + CRC_START : at + row[SIZE]]) != row[CHECKSUM]:
                        raise CorruptSegmentError(path, position + at, "the checksum does not match")
                self.bytes_read += end
                self._throttle.took(end)
                yield Chunk(view[:end], list(rows), position + end >= size, position)
                position += end
        finally:
            os.close(fd)

    def _read(self, fd: int, position: int, size: int) -> int:
        target = memoryview(self._buffer)[: size - position]
        done = 0
        while done < len(target):
            count = os.preadv(fd, [target[done:]], position + done)
            if not count:
                break
            done += count
        return done
