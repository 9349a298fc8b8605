"""Decoding of batches into columns with the compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from ottla.protocol.batch_header import (
    ATTRIBUTES_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    corrupt,
)
from ottla.protocol.compression import Buffer
from ottla.records.kernels import batches
from ottla.records.kernels.batches import Body
from ottla.records.kernels.compiled_decode import (
    BASE_OFFSET,
    COUNT,
    END,
    POSITION,
    ROWS,
    fill_headers,
    fill_records,
)
from ottla.records.kernels.compiled_scan import CRC, WANTED, WIDTH, scan
from ottla.records.kernels.record_columns import (
    HEADER_TYPE,
    HEADERS_TYPE,
    BinaryBuilder,
    HeaderLists,
    RecordColumns,
    RowBuffers,
    allocate,
    primitive,
    readable_keys,
)

_CRC_BEFORE_BODY = BATCH_OVERHEAD - ATTRIBUTES_AT

#: A buffer, and the table of the bodies in it.
Part = tuple[Any, Any]


def decode(
    data: Buffer,
    start: int,
    end: int,
    with_headers: bool,
    aborted: Sequence[tuple[int, int]] | None,
    check_crcs: bool,
) -> tuple[RecordColumns, int]:
    parts, next_offset = _plain(data, start, end, aborted, check_crcs)
    if parts is None:
        found, next_offset = batches.bodies(
            data, start=start, end=end, aborted=aborted, check_crcs=check_crcs
        )
        parts = _parts(found)
    return _columns(parts, start, end, with_headers), next_offset


def _plain(
    data: Buffer, start: int, end: int, aborted: Sequence[tuple[int, int]] | None, check_crcs: bool
) -> tuple[list[Part] | None, int]:
    """Return the same as `bodies`, or None if a batch is compressed, a marker, possibly aborted or invalid."""
    buffer = _read_only(data)
    special = CODEC_MASK | CONTROL_FLAG | (TRANSACTIONAL_FLAG if aborted else 0)
    table: Any = np.empty((len(buffer) // BATCH_OVERHEAD + 1, WIDTH), np.int64)
    count, next_offset = scan(buffer, start, end, special, table)
    if count < 0 or len(buffer) > batches.MOST_BYTES:
        return None, start
    table = table[:count]
    if check_crcs:
        view = memoryview(data)
        for position, stop, crc in table[:, (POSITION, END, CRC)].tolist():
            if crc32c(view[position - _CRC_BEFORE_BODY : stop]) != crc:
                return None, start
    wanted = table[:, WANTED].astype(bool)
    if not wanted.all():
        table = table[wanted]
    return ([(buffer, table)] if len(table) else []), next_offset


def _parts(found: list[Body]) -> list[Part]:
    parts: list[Part] = []
    for _, group in groupby(found, key=lambda body: id(body.buffer)):
        members = list(group)
        parts.append((_read_only(members[0].buffer), np.array([_row(body) for body in members], np.int64)))
    return parts


def _columns(parts: list[Part], start: int, end: int, with_headers: bool) -> RecordColumns:
    rows = sum(int(table[:, COUNT].sum()) for _, table in parts)
    size = sum(int((table[:, END] - table[:, POSITION]).sum()) for _, table in parts)
    keys, values = BinaryBuilder(rows, size), BinaryBuilder(rows, size)
    offset_buffer, offsets = allocate(rows, np.int64)
    timestamp_buffer, timestamps = allocate(rows, np.int64)
    type_buffer, types = allocate(rows, np.int32)
    header_ends_buffer, header_ends = allocate(rows + 1 if with_headers else 1, np.int32)
    header_ends[0] = 0
    lists = HeaderLists(np.empty(rows if with_headers else 0, np.uint64), header_ends)
    totals: Any = np.zeros(6, np.uint64)
    buffers: list[tuple[Any, int, int]] = []
    row_buffers = RowBuffers(offsets, timestamps, types)
    for buffer, table in parts:
        first_row = int(totals[ROWS])
        wrong = fill_records(
            buffer, table, start, end, totals, row_buffers, keys.buffers, values.buffers, lists
        )
        if wrong >= 0:
            raise corrupt(f"a record of the batch at offset {table[wrong, BASE_OFFSET]} is broken")
        buffers.append((buffer, first_row, int(totals[ROWS])))
    rows, key_bytes, value_bytes, *header_totals = (int(total) for total in totals)
    headers = None
    if with_headers:
        fields = _headers(buffers, lists, *header_totals)
        headers = _lists(header_ends_buffer, header_ends, rows, fields)
    return RecordColumns(
        keys.finish(pa.binary(), rows, key_bytes),
        values.finish(pa.binary(), rows, value_bytes),
        primitive(pa.int64(), offset_buffer, rows),
        primitive(pa.int64(), timestamp_buffer, rows),
        primitive(pa.int32(), type_buffer, rows),
        headers,
    )


def _row(body: Body) -> tuple[int, ...]:
    header = body.header
    return (
        body.position,
        body.end,
        header.base_offset,
        header.base_timestamp,
        header.last_offset_delta,
        header.record_count,
        header.timestamp_type,
        header.max_timestamp,
    )


def _read_only(buffer: Buffer) -> Any:
    # Always read-only: numba would compile a second version for writable arrays.
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False
    return array


def _headers(
    buffers: list[tuple[Any, int, int]], lists: HeaderLists, count: int, key_bytes: int, value_bytes: int
) -> pa.StructArray:
    keys, values = BinaryBuilder(count, key_bytes), BinaryBuilder(count, value_bytes)
    totals: Any = np.zeros(6, np.uint64)
    if count:
        for buffer, first, last in buffers:
            fill_headers(
                buffer, np.uint64(first), np.uint64(last), lists, totals, keys.buffers, values.buffers
            )
    return pa.StructArray.from_arrays(
        [
            readable_keys(keys.finish(pa.string(), count, key_bytes)),
            values.finish(pa.binary(), count, value_bytes),
        ],
        fields=list(HEADER_TYPE),
    )


def _lists(buffer: pa.Buffer, ends: Any, rows: int, fields: pa.StructArray) -> pa.ListArray:
    ends = ends[: rows + 1]
    valid = np.packbits(ends[1:] != ends[:-1], bitorder="little")
    return pa.ListArray.from_buffers(
        HEADERS_TYPE, rows, [pa.py_buffer(valid), buffer.slice(0, 4 * (rows + 1))], children=[fields]
    )
