"""Compiled loops over records that decode batch bodies into the buffers of Arrow columns.

Every index is unsigned. numba lets negative indexes count from the end, and checking for them at each byte makes the
loop six times slower. An invalid or truncated varint moves the position to `_NOWHERE`, where every later check fails.
Every read and copy is checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, compiled_inline, copy_bytes

# Columns of the table of bodies.
POSITION, END, BASE_OFFSET, BASE_TIMESTAMP, LAST_OFFSET_DELTA, COUNT, TIMESTAMP_TYPE, MAX_TIMESTAMP = range(8)

# Totals carried from one buffer to the next.
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(6)

_0, _1, _2, _3, _7, _32, _63, _127, _128 = map(np.uint64, (0, 1, 2, 3, 7, 32, 63, 127, 128))
_NOWHERE = np.uint64(1 << 63)
_BITS_32 = np.uint64(35)
_BITS_64 = np.uint64(70)


@compiled
def _long_varint(data: Any, pos: Any, end: Any, bits: Any) -> Any:
    result = _0
    shift = _0
    while shift < bits:
        if pos >= end:
            break
        byte = np.uint64(data[pos])
        pos += _1
        if shift == _63 and byte > _1:
            break
        result |= (byte & _127) << shift
        if byte < _128:
            if bits == _BITS_32 and result >> _32 != _0:
                break
            return result, pos
        shift += _7
    return _0, _NOWHERE


@compiled_inline
def _varint(data: Any, pos: Any, end: Any) -> Any:
    """Read a varint of at most 32 bits. Return it without zigzag decoding, and the position after it."""
    if pos >= end:
        return _0, _NOWHERE
    byte = np.uint64(data[pos])
    if byte < _128:
        return byte, pos + _1
    if end - pos > _1:
        second = np.uint64(data[pos + _1])
        if second < _128:
            return byte + (second << _7) - _128, pos + _2
    return _long_varint(data, pos, end, _BITS_32)


@compiled_inline
def _bytes(data: Any, pos: Any, end: Any) -> Any:
    """Return the start and end of a nullable string, and whether it is null."""
    n, pos = _varint(data, pos, end)
    if n & _1:
        return (pos, pos, True) if n == _1 else (pos, _NOWHERE, True)
    if pos > end or n >> _1 > end - pos:
        return pos, _NOWHERE, False
    return pos, pos + (n >> _1), False


@compiled
def _skip_headers(data: Any, pos: Any, end: Any) -> Any:
    """Return the position after the headers, their count, and the total bytes of their keys and values."""
    n, pos = _varint(data, pos, end)
    key_bytes = value_bytes = _0
    if n & _1:
        return _NOWHERE, _0, _0, _0
    count = n >> _1
    for _ in range(count):
        start, pos, null = _bytes(data, pos, end)
        if null or pos > end:
            return _NOWHERE, _0, _0, _0
        key_bytes += pos - start
        start, pos, null = _bytes(data, pos, end)
        if pos > end:
            return _NOWHERE, _0, _0, _0
        value_bytes += pos - start
    return pos, count, key_bytes, value_bytes


@compiled
def fill_records(
    data: Any, table: Any, first: Any, last: Any, totals: Any, rows: Any, keys: Any, values: Any, lists: Any
) -> Any:
    """Append the records of the bodies in `table`, which all lie in `data`, to the column buffers.

    Returns -1, or the index of the first corrupt body. Offsets outside [first, last) are skipped. The bits of
    `keys.valid` and `values.valid` must be set. If `lists.positions` is empty, headers are checked and skipped.
    """
    row = totals[ROWS]
    key_at = totals[KEY_BYTES]
    value_at = totals[VALUE_BYTES]
    headers = totals[HEADERS]
    header_key_bytes = totals[HEADER_KEY_BYTES]
    header_value_bytes = totals[HEADER_VALUE_BYTES]
    with_headers = lists.positions.size > 0
    for body in range(table.shape[0]):
        pos = np.uint64(table[body, POSITION])
        body_end = np.uint64(table[body, END])
        base_offset = table[body, BASE_OFFSET]
        base_timestamp = table[body, BASE_TIMESTAMP]
        last_offset_delta = np.uint64(table[body, LAST_OFFSET_DELTA])
        timestamp_type = np.int32(table[body, TIMESTAMP_TYPE])
        append_time = table[body, MAX_TIMESTAMP]
        for _ in range(table[body, COUNT]):
            n, pos = _varint(data, pos, body_end)
            if n & _1 or pos > body_end or n >> _1 > body_end - pos:
                return body
            end = pos + (n >> _1)
            pos += _1  # attributes: no bit is used
            if pos >= end:
                return body
            n = np.uint64(data[pos])
            second = np.uint64(data[pos + _1]) if pos + _1 < end else _128
            if n < _128:
                pos += _1
            elif second < _128:
                n += (second << _7) - _128
                pos += _2
            else:
                n, pos = _long_varint(data, pos, end, _BITS_64)
            delta = np.int64(n >> _1) ^ -np.int64(n & _1)
            timestamp = base_timestamp + delta
            if (base_timestamp ^ timestamp) & (delta ^ timestamp) < 0 and timestamp_type == 0:
                return body
            n, pos = _varint(data, pos, end)
            if n & _1 or n >> _1 > last_offset_delta:
                return body
            offset = base_offset + np.int64(n >> _1)
            key_start, key_end, key_null = _bytes(data, pos, end)
            value_start, value_end, value_null = _bytes(data, key_end, end)
            if value_end >= end:
                return body
            header_position = value_end
            header_count = _0
            if data[value_end] == 0:
                pos = value_end + _1
            else:
                pos, header_count, more_keys, more_values = _skip_headers(data, value_end, end)
            if pos != end:
                return body
            if offset < first or offset >= last:
                continue
            rows.offsets[row] = offset
            rows.timestamps[row] = timestamp if timestamp_type == 0 else append_time
            rows.timestamp_types[row] = timestamp_type
            if key_null:
                keys.valid[row >> _3] &= ~(np.uint8(1) << np.uint8(row & _7))
            else:
                copy_bytes(keys.data, key_at, data, key_start, key_end - key_start)
                key_at += key_end - key_start
            if value_null:
                values.valid[row >> _3] &= ~(np.uint8(1) << np.uint8(row & _7))
            else:
                copy_bytes(values.data, value_at, data, value_start, value_end - value_start)
                value_at += value_end - value_start
            if with_headers:
                lists.positions[row] = header_position
                if header_count:
                    headers += header_count
                    header_key_bytes += more_keys
                    header_value_bytes += more_values
            row += _1
            keys.ends[row] = np.int32(key_at)
            values.ends[row] = np.int32(value_at)
            if with_headers:
                lists.ends[row] = np.int32(headers)
        if pos != body_end:
            return body
    totals[ROWS] = row
    totals[KEY_BYTES] = key_at
    totals[VALUE_BYTES] = value_at
    totals[HEADERS] = headers
    totals[HEADER_KEY_BYTES] = header_key_bytes
    totals[HEADER_VALUE_BYTES] = header_value_bytes
    return -1


@compiled
def fill_headers(
    data: Any, first_row: Any, last_row: Any, lists: Any, totals: Any, keys: Any, values: Any
) -> None:
    """Append the headers of these rows to their buffers. `fill_records` has already checked and measured them."""
    end = np.uint64(data.size)
    at = totals[HEADERS]
    key_at = totals[HEADER_KEY_BYTES]
    value_at = totals[HEADER_VALUE_BYTES]
    for row in range(first_row, last_row):
        count = lists.ends[row + _1] - lists.ends[row]
        if count:
            _, pos = _varint(data, lists.positions[row], end)
            for _ in range(count):
                start, pos, null = _bytes(data, pos, end)
                copy_bytes(keys.data, key_at, data, start, pos - start)
                key_at += pos - start
                start, pos, null = _bytes(data, pos, end)
                copy_bytes(values.data, value_at, data, start, pos - start)
                value_at += pos - start
                if null:
                    values.valid[at >> _3] &= ~(np.uint8(1) << np.uint8(at & _7))
                at += _1
                keys.ends[at] = np.int32(key_at)
                values.ends[at] = np.int32(value_at)
    totals[HEADERS] = at
    totals[HEADER_KEY_BYTES] = key_at
    totals[HEADER_VALUE_BYTES] = value_at
