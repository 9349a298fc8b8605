"""Compiled walk over a fetch of plain batches: uncompressed, without markers and valid.

Stepping over a batch in Python costs more than decoding a few records, and producers without linger send small batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, compiled_inline

#: Columns after those of `compiled_decode`'s table: the checksum, and whether any record is wanted.
CRC, WANTED = 8, 9
WIDTH = 10

_8, _12, _16, _17, _21, _23, _27, _35, _57, _61 = map(np.uint64, (8, 12, 16, 17, 21, 23, 27, 35, 57, 61))
_LARGEST_BASE = np.int64(1 << 62)


@compiled_inline
def _integer(data: Any, pos: Any, size: Any) -> Any:
    """Read an unsigned big-endian integer of up to eight bytes."""
    result = np.uint64(0)
    for at in range(pos, pos + size):
        result = result << _8 | np.uint64(data[at])
    return result


@compiled
def scan(data: Any, start: Any, end: Any, special: Any, table: Any) -> Any:
    """Scan every complete batch up to `end`. Return the number of rows added to `table` and the next offset.

    The number is -1 if a batch is not plain: its magic is not 2, it has one of the `special` attributes, or it is
    invalid.
    """
    size = np.uint64(data.size)
    pos = np.uint64(0)
    count = 0
    next_offset = start
    while pos + _12 <= size and next_offset < end and count < table.shape[0]:
        length = np.int32(_integer(data, pos + _8, np.uint64(4)))
        if length < 49:
            return -1, start
        if np.uint64(length) > size - pos - _12:
            break
        batch_end = pos + _12 + np.uint64(length)
        attributes = np.int64(_integer(data, pos + _21, np.uint64(2)))
        base_offset = np.int64(_integer(data, pos, _8))
        last_offset_delta = np.int64(np.int32(_integer(data, pos + _23, np.uint64(4))))
        records = np.int64(np.int32(_integer(data, pos + _57, np.uint64(4))))
        if data[pos + _16] != 2 or attributes & special:
            return -1, start
        if base_offset < 0 or base_offset > _LARGEST_BASE or last_offset_delta < 0:
            return -1, start
        if records < 0 or records * 7 > np.int64(length) - 49:
            return -1, start
        last_offset = base_offset + last_offset_delta
        row = table[count]
        row[0] = np.int64(pos + _61)
        row[1] = np.int64(batch_end)
        row[2] = base_offset
        row[3] = np.int64(_integer(data, pos + _27, _8))
        row[4] = last_offset_delta
        row[5] = records
        row[6] = attributes >> 3 & 1
        row[7] = np.int64(_integer(data, pos + _35, _8))
        row[8] = np.int64(_integer(data, pos + _17, np.uint64(4)))
        row[9] = records > 0 and last_offset >= start and base_offset < end
        count += 1
        pos = batch_end
        if base_offset >= end:
            next_offset = end
        elif last_offset >= start:
            next_offset = last_offset + 1
    return count, min(next_offset, end)
