"""Selection and decompression of the fetched batches that hold records to deliver.

The walk from batch to batch is plain Python; the kernels process the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np

from ottla.protocol.batch_header import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    check_crc,
    corrupt,
    read_header,
)
from ottla.protocol.compression import MAX_DECOMPRESSED_SIZE, Buffer, Codec, decompress, decompress_into
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.record_format import LEAST_RECORD, parse_records

#: Arrow uses int32 offsets within a column, so larger columns are split across calls.
MOST_BYTES = 1 << 30

#: Fits the decompressed data of most fetches, yet small enough for the allocator to reuse.
_ROOM = 8 << 20

_INT32 = Struct(">i")
_CONTROL_KEY = Struct(">hh")
_ABORT = 0
_LAST_OFFSET = (1 << 63) - 2


class Body(NamedTuple):
    """Records of one batch: the bytes of `buffer` from `position` to `end`."""

    buffer: Buffer
    position: int
    end: int
    header: BatchHeader


def bodies(
    data: Buffer,
    *,
    start: int,
    end: int,
    aborted: Sequence[tuple[int, int]] | None = None,
    check_crcs: bool = True,
) -> tuple[list[Body], int]:
    """Return the batch bodies with records in [start, end), and the next offset.

    A truncated last batch and control batches are skipped. With `aborted` (producer ids and first offsets, as a
    read_committed fetch returns them), batches of aborted transactions are skipped too.
    """
    view = memoryview(data)
    found: list[Body] = []
    transactions = _AbortedTransactions(aborted)
    room = _Room()
    next_offset = start
    total = position = 0
    while position + LOG_OVERHEAD <= len(view) and next_offset < end:
        (length,) = _INT32.unpack_from(view, position + LENGTH_AT)
        if length >= 0 and position + LOG_OVERHEAD + length > len(view):
            break
        header = _checked_header(view, position, check_crcs)
        first, position = position, position + header.size
        if header.last_offset < start:
            continue
        if header.base_offset >= end:
            next_offset = end  # compaction or a transaction marker left a gap
            break
        if header.record_count and not transactions.hide(header, view, first):
            body = _body(view, first, header, room)
            total += body.end - body.position
            if found and total > MOST_BYTES:
                break
            found.append(body)
        next_offset = header.next_offset
    return found, min(next_offset, end)


class _AbortedTransactions:
    """Tracks which producers have an open aborted transaction, like the Java consumer."""

    def __init__(self, aborted: Sequence[tuple[int, int]] | None) -> None:
        self._committed_only = aborted is not None
        self._coming = sorted(aborted or (), key=lambda pair: pair[1], reverse=True)
        self._open: set[int] = set()

    def hide(self, header: BatchHeader, view: memoryview, position: int) -> bool:
        if self._committed_only:
            while self._coming and self._coming[-1][1] <= header.last_offset:
                self._open.add(self._coming.pop()[0])
        if header.is_control:
            if header.producer_id in self._open and _is_abort(view, position, header):
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _checked_header(view: memoryview, position: int, check_crcs: bool) -> BatchHeader:
    header = read_header(view, position)
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"the records at offset {header.base_offset} are in format {header.magic}, from before Kafka 0.11",
        )
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset > _LAST_OFFSET:
        raise corrupt(f"a batch has the offsets {header.base_offset} to {header.last_offset}")
    if header.record_count < 0:
        raise corrupt(f"the batch at offset {header.base_offset} has {header.record_count} records")
    if check_crcs and not check_crc(view, position, header):
        raise corrupt(f"the checksum of the batch at offset {header.base_offset} is wrong")
    return header


class _Room:
    """Large buffers for decompressed bodies, filled one after the other."""

    def __init__(self) -> None:
        self._buffer = memoryview(b"")
        self._used = 0
        self._ratio = 4.0

    def decompress(self, codec: int, data: memoryview) -> tuple[Buffer, int, int]:
        """Decompress one body. Return the buffer and the start and end of the records in it."""
        if codec not in (Codec.LZ4, Codec.ZSTD):
            plain = decompress(codec, data)
            return plain, 0, len(plain)
        wanted = int(1.2 * self._ratio * len(data))
        while True:
            if wanted > len(self._buffer) - self._used:
                # Unlike a bytearray, np.empty does not zero the memory.
                self._buffer = np.empty(max(wanted, _ROOM), np.uint8).data
                self._used = 0
            first, space = self._used, len(self._buffer) - self._used
            length = decompress_into(codec, data, self._buffer[first:])
            if length is not None:
                self._used += length
                self._ratio = max(self._ratio, length / max(1, len(data)))
                return self._buffer, first, first + length
            if space >= MAX_DECOMPRESSED_SIZE:
                raise corrupt(f"the records are larger than {MAX_DECOMPRESSED_SIZE} bytes")
            wanted = min(4 * space, MAX_DECOMPRESSED_SIZE)


def _body(view: memoryview, position: int, header: BatchHeader, room: _Room) -> Body:
    first, end = position + BATCH_OVERHEAD, position + header.size
    codec = header.attributes & CODEC_MASK
    if codec:
        body = Body(*room.decompress(codec, view[first:end]), header)
    else:
        body = Body(view, first, end, header)
    if header.record_count * LEAST_RECORD > body.end - body.position:
        raise corrupt(f"{header.record_count} records in {body.end - body.position} bytes")
    return body


def _is_abort(view: memoryview, position: int, header: BatchHeader) -> bool:
    body = _body(view, position, header, _Room())
    try:
        record = parse_records(bytes(body.buffer[body.position : body.end]), header)[0]
    except KafkaError as error:
        raise corrupt(f"the transaction marker at offset {header.base_offset}: {error}") from None
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise corrupt(f"the transaction marker at offset {header.base_offset} has no type")
    return bool(_CONTROL_KEY.unpack_from(record.key)[1] == _ABORT)
