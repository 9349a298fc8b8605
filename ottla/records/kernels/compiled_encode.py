"""Compiled loops over rows that encode Arrow columns into record batches and map keys to partitions.

`input_columns` describes the columns. Indexes are unsigned, as in `compiled_decode`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, compiled_inline, copy_bytes

_0, _1, _2, _3, _4, _7, _8, _13, _15, _16, _24 = map(np.uint64, (0, 1, 2, 3, 4, 7, 8, 13, 15, 16, 24))
_127, _128, _16384 = map(np.uint64, (127, 128, 16384))
_63 = np.int64(63)
_SIGNED_1 = np.int64(1)

_SEED = np.uint64(0x9747B28C)
_MULTIPLIER = np.uint64(0x5BD1E995)
_UINT32 = np.uint64(0xFFFFFFFF)
_POSITIVE = np.uint64(0x7FFFFFFF)


@compiled_inline
def _size_of_varint(n: Any) -> Any:
    if n < _128:
        return _1
    if n < _16384:
        return _2
    size = _2
    n >>= _7 + _7
    while n != _0:
        size += _1
        n >>= _7
    return size


@compiled_inline
def _write_varint(out: Any, at: Any, n: Any) -> Any:
    while n > _127:
        out[at] = np.uint8(n & _127 | _128)
        n >>= _7
        at += _1
    out[at] = np.uint8(n)
    return at + _1


@compiled_inline
def _string(column: Any, row: Any) -> Any:
    """Return the start of a string, its size, and its zigzag length as written. The written length of null is -1."""
    start = np.uint64(column.ends[row])
    if column.nulls.size != 0 and column.nulls[row]:
        return start, _0, _1
    size = np.uint64(column.ends[row + _1]) - start
    return start, size, size << _1


@compiled
def _size_of_headers(first: Any, last: Any, headers: Any) -> Any:
    size = _size_of_varint((last - first) << _1)
    for header in range(first, last):
        _, length, written = _string(headers.keys, header)
        size += _size_of_varint(written) + length
        _, length, written = _string(headers.values, header)
        size += _size_of_varint(written) + length
    return size


@compiled
def fill_batch(
    out: Any, start: Any, rows: Any, first: Any, timestamps: Any, keys: Any, values: Any, headers: Any
) -> Any:
    """Write the records of rows[first:] to `out` from `start` on, until `out` is full.

    Returns the number of records, their end, their largest timestamp, and the size of the first record that did not
    fit. A column with empty `ends` is missing.
    """
    at = start
    room = np.uint64(out.size)
    base_timestamp = timestamps[rows[first]]
    max_timestamp = base_timestamp
    count = _0
    for index in range(first, np.uint64(rows.size)):
        row = rows[index]
        key_start, key_size, key_written, value_start, value_size, value_written = _0, _0, _1, _0, _0, _1
        if keys.ends.size != 0:
            key_start, key_size, key_written = _string(keys, row)
        if values.ends.size != 0:
            value_start, value_size, value_written = _string(values, row)
        first_header = last_header = _0
        headers_size = _1
        if headers.ends.size != 0:
            first_header, last_header = np.uint64(headers.ends[row]), np.uint64(headers.ends[row + _1])
            headers_size = _size_of_headers(first_header, last_header, headers)
        timestamp = timestamps[row]
        since = timestamp - base_timestamp
        since_written = np.uint64((since << _SIGNED_1) ^ (since >> _63))
        size = (
            _1
            + _size_of_varint(since_written)
            + _size_of_varint(count << _1)
            + _size_of_varint(key_written)
            + key_size
            + _size_of_varint(value_written)
            + value_size
            + headers_size
        )
        whole = size + _size_of_varint(size << _1)
        if whole > room - at:
            return count, at, max_timestamp, whole
        at = _write_varint(out, at, size << _1)
        out[at] = 0
        at = _write_varint(out, at + _1, since_written)
        at = _write_varint(out, at, count << _1)
        at = _write_varint(out, at, key_written)
        copy_bytes(out, at, keys.data, key_start, key_size)
        at = _write_varint(out, at + key_size, value_written)
        copy_bytes(out, at, values.data, value_start, value_size)
        at = _write_varint(out, at + value_size, (last_header - first_header) << _1)
        for header in range(first_header, last_header):
            text_start, text_size, written = _string(headers.keys, header)
            at = _write_varint(out, at, written)
            copy_bytes(out, at, headers.keys.data, text_start, text_size)
            at += text_size
            text_start, text_size, written = _string(headers.values, header)
            at = _write_varint(out, at, written)
            copy_bytes(out, at, headers.values.data, text_start, text_size)
            at += text_size
        max_timestamp = max(max_timestamp, timestamp)
        count += _1
    return count, at, max_timestamp, _0


@compiled_inline
def _murmur2(data: Any, start: Any, size: Any) -> Any:
    """Return the murmur2 hash of Kafka's Java client as uint32."""
    hashed = _SEED ^ size
    at = start
    end = start + size
    while end - at >= _4:
        word = (
            np.uint64(data[at])
            | np.uint64(data[at + _1]) << _8
            | np.uint64(data[at + _2]) << _16
            | np.uint64(data[at + _3]) << _24
        )
        word = word * _MULTIPLIER & _UINT32
        word = (word ^ word >> _24) * _MULTIPLIER & _UINT32
        hashed = (hashed * _MULTIPLIER & _UINT32) ^ word
        at += _4
    if end > at:
        if end - at > _2:
            hashed ^= np.uint64(data[at + _2]) << _16
        if end - at > _1:
            hashed ^= np.uint64(data[at + _1]) << _8
        hashed = (hashed ^ np.uint64(data[at])) * _MULTIPLIER & _UINT32
    hashed = (hashed ^ hashed >> _13) * _MULTIPLIER & _UINT32
    return hashed ^ hashed >> _15


@compiled
def fill_partitions(keys: Any, count: Any, partitions: Any) -> None:
    """Compute the partition of each key like Kafka's default partitioner. Null keys get -1."""
    for row in range(np.uint64(partitions.size)):
        start, size, written = _string(keys, row)
        if written == _1:
            partitions[row] = -1
        else:
            partitions[row] = np.int32((_murmur2(keys.data, start, size) & _POSITIVE) % count)


@compiled
def group_rows(partitions: Any, ends: Any, rows: Any) -> None:
    """Sort rows by partition, stable within each partition. `ends` starts as zeros, one per partition."""
    for row in range(np.uint64(partitions.size)):
        ends[np.uint64(partitions[row])] += _1
    total = _0
    for partition in range(np.uint64(ends.size)):
        count = ends[partition]
        ends[partition] = total
        total += count
    for row in range(np.uint64(partitions.size)):
        mine = np.uint64(partitions[row])
        rows[ends[mine]] = row
        ends[mine] += _1
