"""Record batches at the level of the log: headers and checksums, without decoding records."""

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

CRC_START = ATTRIBUTES_AT  # the checksum covers everything from the attributes to the end

# Fields that a leader overwrites in a producer's batch.
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
    """Return True if every offset in the range has a record, so compaction has removed none."""
    return header.record_count == header.last_offset_delta + 1


def header_at(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header fields without checks: a damaged file must not raise here."""
    return tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))


def fault_of(header: BatchHeader) -> str | None:
    """Return why these bytes cannot be a batch header, or None."""
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
    """Return which rule two neighbours violate: offsets and epochs rise, and the checksum does not cover them."""
    if header.base_offset <= before.last_offset:
        return f"offset {header.base_offset} follows {before.last_offset}"
    if header.partition_leader_epoch < before.partition_leader_epoch:
        return f"leader epoch {header.partition_leader_epoch} follows {before.partition_leader_epoch}"
    return None


class Invalid(NamedTuple):
    """Position and reason of a scan that stopped before the end of the file."""

    position: int
    reason: str
    cut: bool = False  # the batch is incomplete


class BatchScan:
    """Iterates over the batches of a file from a position to `end`. `invalid` tells why it stopped early.

    Without `check_crc` only headers are read. Owner: the iterating caller; the file must not shrink in the meantime.
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
