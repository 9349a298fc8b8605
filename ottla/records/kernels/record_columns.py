"""Columns decoded from a fetch, and the Arrow buffers that the kernels fill."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(HEADER_TYPE)


class RecordColumns(NamedTuple):
    """One row per record. Headers are null for records without headers, as in Spark's Kafka connector."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    offsets: pa.Int64Array
    timestamps: pa.Int64Array
    timestamp_types: pa.Int32Array
    headers: pa.ListArray | None


def allocate(count: int, dtype: Any) -> tuple[pa.Buffer, Any]:
    """Allocate a buffer from Arrow's pool, which reuses memory. Return it with an array over it."""
    buffer = pa.allocate_buffer(count * np.dtype(dtype).itemsize)
    return buffer, np.frombuffer(buffer, dtype)


def primitive(kind: pa.DataType, buffer: pa.Buffer, rows: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, buffer.slice(0, rows * kind.bit_width // 8)])


class StringBuffers(NamedTuple):
    """Buffers that a kernel fills for a string column: ends, validity bits and bytes."""

    ends: Any
    valid: Any
    data: Any


class RowBuffers(NamedTuple):
    """Buffers that a kernel fills for the fixed-width columns."""

    offsets: Any
    timestamps: Any
    timestamp_types: Any


class HeaderLists(NamedTuple):
    """Position of each record's headers in the batch, and the running count of headers."""

    positions: Any
    ends: Any


class BinaryBuilder:
    """Buffers of a string column with a capacity in rows and bytes."""

    def __init__(self, rows: int, size: int) -> None:
        self._ends, ends = allocate(rows + 1, np.int32)
        self._valid, valid = allocate((rows + 7) // 8, np.uint8)
        self._data, data = allocate(size, np.uint8)
        ends[0] = 0
        valid.fill(0xFF)
        self.buffers = StringBuffers(ends, valid, data)

    def finish(self, kind: pa.DataType, rows: int, size: int) -> pa.Array:
        valid = self._valid.slice(0, (rows + 7) // 8)
        return pa.Array.from_buffers(
            kind, rows, [valid, self._ends.slice(0, 4 * (rows + 1)), self._data.slice(0, size)]
        )


def readable_keys(keys: pa.StringArray) -> pa.StringArray:
    """Convert header keys to text. Replace invalid UTF-8, as Java does."""
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = keys.view(pa.binary())
        return pa.array([key.as_py().decode("utf-8", "replace") for key in raw], pa.string())
    return keys
