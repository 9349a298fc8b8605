"""Arrow columns as input for the encoding kernels: plain arrays of ends, bytes and nulls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


class Strings(NamedTuple):
    """Ends of the strings (preceded by the start of the first), their bytes, and a null mask, empty without nulls."""

    ends: Any
    data: Any
    nulls: Any


class Headers(NamedTuple):
    """Ends of the header lists of each row, and the columns with keys and values."""

    ends: Any
    keys: Strings
    values: Strings


def _frozen(array: Any) -> Any:
    # numba compiles a version for every combination of writable and read-only arrays.
    array.flags.writeable = False
    return array


def _no_bytes(dtype: Any) -> Any:
    return _frozen(np.empty(0, dtype))


NO_STRINGS = Strings(_no_bytes(np.int32), _no_bytes(np.uint8), _no_bytes(np.bool_))
NO_HEADERS = Headers(_no_bytes(np.int32), NO_STRINGS, NO_STRINGS)


def strings(column: pa.Array | pa.ChunkedArray | None) -> Strings:
    """Convert a column of strings or bytes. The column may be missing."""
    if column is None:
        return NO_STRINGS
    column = _whole(column)
    if pa.types.is_string(column.type):
        column = column.view(pa.binary())
    elif not pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    if not len(column):
        return Strings(_frozen(np.zeros(1, np.int32)), *NO_STRINGS[1:])
    _, ends, data = column.buffers()
    return Strings(
        _frozen(np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]),
        _frozen(np.frombuffer(data, np.uint8)) if data else NO_STRINGS.data,
        _nulls(column),
    )


def headers(column: pa.Array | pa.ChunkedArray | None) -> Headers:
    """Convert a column of lists of (key, value). A null list has no headers."""
    if column is None:
        return NO_HEADERS
    column = _whole(column)
    if not pa.types.is_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    if column.null_count:  # a null entry may still have a length
        column = column.fill_null([])
    pairs = column.flatten()
    keys, values = pairs.field(0), pairs.field(1)
    if pairs.null_count or keys.null_count:
        raise ValueError("a header has no key")
    lengths = column.value_lengths().to_numpy()
    ends: Any = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return Headers(_frozen(ends), strings(keys), strings(values))


def timestamps(column: pa.Array | pa.ChunkedArray | None, rows: int, now: int) -> Any:
    """Return timestamps in milliseconds, with `now` for missing columns and nulls."""
    if column is None:
        return _frozen(np.full(rows, now, np.int64))
    column = _whole(column)
    if column.null_count:
        column = column.fill_null(now)
    result = np.array(column.to_numpy(zero_copy_only=False), np.int64)
    if rows and result.min() < 0:
        raise ValueError(f"the timestamp {result.min()} is negative")
    return _frozen(result)


def _nulls(column: pa.Array) -> Any:
    if not column.null_count:
        return NO_STRINGS.nulls
    return _frozen(column.is_null().to_numpy(zero_copy_only=False))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column
