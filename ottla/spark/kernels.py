"""Record batches to Arrow columns and back: what the source and the sink of Spark stand on.

The loops over records are compiled by numba. Where it is not installed the reference in plain Python does
the same, some fifty times slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.protocol.batch_header import corrupt
from ottla.protocol.compression import Buffer
from ottla.spark import reference
from ottla.spark.batches import Body, bodies
from ottla.spark.record_columns import (
    HEADER_TYPE,
    HEADERS_TYPE,
    BinaryBuilder,
    RecordColumns,
    allocate,
    primitive,
    readable_keys,
)

try:
    from ottla.spark import compiled_decode
except ImportError:  # numba is not installed
    compiled_decode = None  # type: ignore[assignment]

__all__ = ["RecordColumns", "decode"]


def decode(
    data: Buffer,
    *,
    start: int,
    end: int,
    with_headers: bool,
    aborted: Sequence[tuple[int, int]] | None = None,
    check_crcs: bool = True,
) -> tuple[RecordColumns, int]:
    """The records of [start, end) in every complete batch of a fetch, and the offset to go on with.

    That offset is `start` when `data` holds no complete batch, and never beyond `end`. Control batches are
    left out, and so are aborted transactions when `aborted` is given: producer ids and first offsets, as
    FetchResponse lists them. What is corrupt raises KafkaError with CORRUPT_MESSAGE.
    """
    found, next_offset = bodies(data, start=start, end=end, aborted=aborted, check_crcs=check_crcs)
    if compiled_decode is None:
        columns = reference.columns(found, start, end, with_headers)
    else:
        columns = _columns(found, start, end, with_headers)
    return columns, next_offset


def _columns(found: list[Body], start: int, end: int, with_headers: bool) -> RecordColumns:
    rows = sum(body.header.record_count for body in found)
    size = sum(body.end - body.position for body in found)
    keys, values = BinaryBuilder(rows, size), BinaryBuilder(rows, size)
    offset_buffer, offsets = allocate(rows, np.int64)
    timestamp_buffer, timestamps = allocate(rows, np.int64)
    type_buffer, types = allocate(rows, np.int32)
    header_positions: Any = np.empty(rows if with_headers else 0, np.uint64)
    header_ends_buffer, header_ends = allocate(rows + 1 if with_headers else 1, np.int32)
    header_ends[0] = 0
    totals: Any = np.zeros(6, np.uint64)
    buffers: list[tuple[Any, int, int]] = []
    for _, group in groupby(found, key=lambda body: id(body.buffer)):
        members = list(group)
        buffer = _read_only(members[0].buffer)
        table = np.array([_row(body) for body in members], np.int64)
        first_row = int(totals[compiled_decode.ROWS])
        wrong = compiled_decode.fill_records(
            buffer,
            table,
            start,
            end,
            totals,
            offsets,
            timestamps,
            types,
            keys.ends,
            keys.valid,
            keys.data,
            values.ends,
            values.valid,
            values.data,
            header_positions,
            header_ends,
        )
        if wrong >= 0:
            raise corrupt(f"a record of the batch at offset {members[wrong].header.base_offset} is broken")
        buffers.append((buffer, first_row, int(totals[compiled_decode.ROWS])))
    rows, key_bytes, value_bytes, *header_totals = (int(total) for total in totals)
    headers = None
    if with_headers:
        fields = _headers(buffers, header_positions, header_ends, *header_totals)
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
    # Always read-only, because numba compiles once more for an array that can be written.
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False
    return array


def _headers(
    buffers: list[tuple[Any, int, int]],
    positions: Any,
    header_ends: Any,
    count: int,
    key_bytes: int,
    value_bytes: int,
) -> pa.StructArray:
    keys, values = BinaryBuilder(count, key_bytes), BinaryBuilder(count, value_bytes)
    totals: Any = np.zeros(6, np.uint64)
    if count:
        for buffer, first, last in buffers:
            compiled_decode.fill_headers(
                buffer,
                np.uint64(first),
                np.uint64(last),
                positions,
                header_ends,
                totals,
                keys.ends,
                keys.data,
                values.ends,
                values.valid,
                values.data,
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
