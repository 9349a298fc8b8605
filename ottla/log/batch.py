"""Record batches as the log sees them: headers and checksums, no records decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.protocol.batch_header import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
)
from ottla.protocol.compression import Buffer

CRC_START = ATTRIBUTES_AT  # the checksum covers everything from the attributes on

# What a leader writes into a batch that is otherwise the producer's.
BASE_OFFSET = Struct(">q")
LEADER_EPOCH = Struct(">i")
LEADER_EPOCH_AT = 12
CRC = Struct(">I")
ATTRIBUTES = Struct(">h")
MAX_TIMESTAMP = Struct(">q")
MAX_TIMESTAMP_AT = 35

_SCAN_BYTES = 1 << 16
_CHECKED_SCAN_BYTES = 1 << 20


def is_dense(header: BatchHeader) -> bool:
    """Every offset of the range has its record, that is, compaction has removed none."""
    return header.record_count == header.last_offset_delta + 1


def header_at(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The fields as they are, sensible or not: what a damaged file says must not raise here."""
    return tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))


def fault_of(header: BatchHeader) -> str | None:
    """Why these bytes cannot be the header of a batch, or None if they can."""
    if header.magic != MAGIC:
        if header.magic in (0, 1):
            return f"message format {header.magic}, which is no longer supported"
        return f"unknown magic {header.magic}"
    if header.batch_length < BATCH_OVERHEAD - LOG_OVERHEAD:
        return f"batch length {header.batch_length}"
    if header.base_offset < 0 or header.last_offset_delta < 0:
        return f"offsets {header.base_offset} + {header.last_offset_delta}"
    return None


def order_fault(before: BatchHeader, header: BatchHeader) -> str | None:
    """Why one of two neighbours is damaged: offsets and epochs rise, and are not covered by the checksum."""
    if header.base_offset <= before.last_offset:
        return f"offset {header.base_offset} follows {before.last_offset}"
    if header.partition_leader_epoch < before.partition_leader_epoch:
        return f"leader epoch {header.partition_leader_epoch} follows {before.partition_leader_epoch}"
    return None


class Invalid(NamedTuple):
    """Where a scan stopped before the end of the file, and why."""

    position: int
    reason: str
    cut: bool = False  # the bytes end before the batch does


class BatchScan:
    """Walks the batches of a file from a position to `end`; after it, `invalid` says why it stopped early.

    Without `check_crc` only headers are read. Owner: the caller that iterates; the file must not shrink meanwhile.
    """

    def __init__(self, fd: int, start: int, end: int, *, check_crc: bool) -> None:
        self._fd = fd
        self._start = start
        self._end = end
        self._check_crc = check_crc
        self.position = start
        self.invalid: Invalid | None = None

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        fd, end, check_crc = self._fd, self._end, self._check_crc
        window = _CHECKED_SCAN_BYTES if check_crc else _SCAN_BYTES
        position = self._start
        chunk, chunk_start = memoryview(b""), position
        while position < end:
            self.position = position
            at = position - chunk_start
            if at + BATCH_OVERHEAD > len(chunk):
                chunk = memoryview(os.pread(fd, min(window, end - position), position))
                chunk_start, at = position, 0
                if len(chunk) < BATCH_OVERHEAD:
                    self.invalid = Invalid(position, "the batch header is cut short", cut=True)
                    return
            header = header_at(chunk, at)
            fault = fault_of(header)
            if fault is None and position + header.size > end:
                self.invalid = Invalid(position, "the batch is cut short", cut=True)
                return
            if fault is None and check_crc:
                if at + header.size > len(chunk):
                    chunk = memoryview(os.pread(fd, min(max(window, header.size), end - position), position))
                    chunk_start, at = position, 0
                if crc32c(chunk[at + CRC_START : at + header.size]) != header.crc:
                    fault = "the checksum does not match"
            if fault is not None:
                self.invalid = Invalid(position, fault)
                return
            yield position, header
            position += header.size
        self.position = position


def read_batch_bytes(fd: int, position: int, header: BatchHeader) -> bytes:
    return os.pread(fd, header.size, position)
