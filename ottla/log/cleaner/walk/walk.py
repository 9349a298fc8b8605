"""The walk over records: the interface and its plain Python version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol

from ottla.log.batch import fault_of, header_at
from ottla.protocol.batch_header import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from ottla.protocol.errors import KafkaError
from ottla.protocol.record_format import LEAST_RECORD, Record, parse_records, write_records

# Common interface of the compiled walk and the walk in plain Python.

# Modes of a batch, as bits.
TAKE = 0
DROP_RECORDS = 1  # aborted data, or an expired marker
KEEP_EMPTY = 2  # keep the header even without records
CONTROL = 4  # contains a marker without a key to look up
SET_HORIZON = 8  # a marker whose transaction is gone: its expiry starts now

#: Latest offset of an empty map.
NOTHING = -1


#: One batch of a chunk: position and header fields, in the order of the names below. A plain list, because there is one
#: per batch and numpy accepts nothing else as quickly.
Row = Sequence[int]
POSITION, SIZE, BASE_OFFSET, LAST_OFFSET = range(4)
CHECKSUM, ATTRIBUTES, PRODUCER_ID, PRODUCER_EPOCH, RECORDS = range(4, 9)


class Rules(NamedTuple):
    """Rules for keeping or dropping a record."""

    latest_offset: int  # later records were not indexed and stay
    now_ms: int
    horizon_ms: int  # expiry of tombstones met for the first time


class Filtered(NamedTuple):
    """Remainder of a chunk. `data` is valid until the next call."""

    data: memoryview
    changed: list[tuple[int, int]]  # position and size of batches that need a new checksum
    records: int
    kept: int


class Scanned(NamedTuple):
    rows: Sequence[Row]
    end: int  # end of the last complete batch
    fault: str | None


class MalformedRecords(Exception):
    """A batch with a valid checksum and malformed records."""


class Walk(Protocol):
    """Map from keys to their last offsets, with the loops over records that fill and query it.

    Chunks are complete uncompressed batches. Owner: one job.
    """

    @property
    def keys(self) -> int:
        """Number of keys in the map."""

    def scan(self, data: memoryview) -> Scanned:
        """Return the complete batches of a chunk."""

    def index(self, data: memoryview, rows: Sequence[Row], skip: bytes, start_offset: int) -> int:
        """Index the keys from `start_offset`. Return the number of batches taken: fewer if the map is full."""

    def filter(self, data: memoryview, rows: Sequence[Row], modes: bytes, rules: Rules) -> Filtered:
        """Return the remaining batches: unchanged, rewritten or emptied."""


# The walk in plain Python: reference for the compiled one, sufficient for small logs, and fallback without numba.

#: Memory per dictionary entry, including key and offset.
ENTRY_BYTES = 200

_KEPT_ATTRIBUTES = TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG


class ReferenceWalk:
    """Owner: one job."""

    def __init__(self, max_keys: int) -> None:
        self._max_keys = max_keys
        self._offsets: dict[bytes, int] = {}
        self._secret = os.urandom(16)

    @property
    def keys(self) -> int:
        return len(self._offsets)

    def _hash(self, key: bytes) -> bytes:
        return blake2b(key, digest_size=16, key=self._secret).digest()

    def scan(self, data: memoryview) -> Scanned:
        rows: list[Row] = []
        at = 0
        while at + BATCH_OVERHEAD <= len(data):
            header = header_at(data, at)
            fault = fault_of(header)
            if fault is not None:
                return Scanned(rows, at, fault)
            if at + header.size > len(data):
                break
            rows.append(
                (
                    at,
                    header.size,
                    header.base_offset,
                    header.last_offset,
                    header.crc,
                    header.attributes,
                    header.producer_id,
                    header.producer_epoch,
                    header.record_count,
                )
            )
            at += header.size
        return Scanned(rows, at, None)

    def index(self, data: memoryview, rows: Sequence[Row], skip: bytes, start_offset: int) -> int:
        offsets = self._offsets
        for taken, (row, skipped) in enumerate(zip(rows, skip, strict=True)):
            if skipped:
                continue
            for record in _records(data, row):
                if record.key is not None and record.offset >= start_offset:
                    if len(offsets) >= self._max_keys:
                        return taken
                    offsets[self._hash(record.key)] = record.offset
        return len(rows)

    def filter(self, data: memoryview, rows: Sequence[Row], modes: bytes, rules: Rules) -> Filtered:
        out = bytearray()
        changed: list[tuple[int, int]] = []
        seen = kept = 0
        for row, mode in zip(rows, modes, strict=True):
            if mode & DROP_RECORDS and not mode & KEEP_EMPTY:
                continue
            position, size = row[POSITION], row[SIZE]
            header = header_at(data, position)
            records = _records(data, row)
            staying = [r for r in records if self._stays(r, header, mode, rules)]
            seen += len(records)
            kept += len(staying)
            start = len(out)
            if staying:
                has_horizon = header.attributes & DELETE_HORIZON_FLAG
                marked = mode & SET_HORIZON or any(r.value is None for r in staying)
                if len(staying) == len(records) and (has_horizon or not marked):
                    out += data[position : position + size]
                    continue
                out += _rebuilt(
                    data, position, header, staying, rules if marked and not has_horizon else None
                )
            elif mode & KEEP_EMPTY:
                out += _emptied(header)
            else:
                continue
            changed.append((start, len(out) - start))
        return Filtered(memoryview(out), changed, seen, kept)

    def _stays(self, record: Record, header: BatchHeader, mode: int, rules: Rules) -> bool:
        if mode & DROP_RECORDS:
            return False
        if mode & CONTROL or record.offset > rules.latest_offset:
            return True
        if record.key is None:
            return False
        if record.offset < self._offsets.get(self._hash(record.key), -1):
            return False
        return (
            record.value is not None
            or not header.attributes & DELETE_HORIZON_FLAG
            or rules.now_ms < header.base_timestamp
        )


def _records(data: memoryview, row: Row) -> list[Record]:
    position, size, count = row[POSITION], row[SIZE], row[RECORDS]
    header = header_at(data, position)
    if count < 0 or count * LEAST_RECORD > size - BATCH_OVERHEAD:
        raise MalformedRecords(f"{count} records in {size - BATCH_OVERHEAD} bytes")
    # Copy the original timestamps regardless of their type.
    header = header._replace(attributes=header.attributes & ~TIMESTAMP_TYPE_FLAG)
    try:
        return parse_records(bytes(data[position + BATCH_OVERHEAD : position + size]), header)
    except KafkaError as error:
        raise MalformedRecords(error.message or str(error)) from None


def _rebuilt(
    data: memoryview, position: int, header: BatchHeader, records: list[Record], horizon: Rules | None
) -> bytes:
    base_timestamp = header.base_timestamp if horizon is None else horizon.horizon_ms
    body = write_records(records, header.base_offset, base_timestamp)
    max_timestamp = header.max_timestamp
    if not header.attributes & TIMESTAMP_TYPE_FLAG:
        max_timestamp = max(record.timestamp for record in records)
    return (
        HEADER.pack(
            *header._replace(
                batch_length=BATCH_OVERHEAD - LOG_OVERHEAD + len(body),
                crc=0,
                attributes=header.attributes | (DELETE_HORIZON_FLAG if horizon else 0),
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                record_count=len(records),
            )
        )
        + body
    )


def _emptied(header: BatchHeader) -> bytes:
    """Return a batch without records: offsets, epoch, producer and sequence only."""
    assert header.magic == MAGIC
    return HEADER.pack(
        *header._replace(
            batch_length=BATCH_OVERHEAD - LOG_OVERHEAD,
            crc=0,
            attributes=header.attributes & _KEPT_ATTRIBUTES & ~CODEC_MASK,
            base_timestamp=-1,
            record_count=0,
        )
    )
