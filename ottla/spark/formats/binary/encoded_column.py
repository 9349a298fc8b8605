"""Memory management around the compiled loops that encode a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ottla.spark.formats.column_reading import Filler
from ottla.spark.formats.registered.writing import UnwritableRow

#: Results of a loop: all rows done, or no room. Any other number is the error of a row.
FINISHED, FULL = 0, 1


class Program(Protocol):
    @property
    def tables(self) -> Any: ...

    def reason(self, status: int, pc: int) -> str: ...


def encode_column(
    encode_rows: Callable[..., Any], program: Program, filler: Filler, column: pa.Array, prefix: bytes
) -> pa.BinaryArray:
    """Encode the rows, each after the prefix. Null rows stay null. Raises UnwritableRow."""
    rows = len(column)
    columns = filler.fill(column)
    ends = np.zeros(rows + 1, np.int32)
    out = np.empty(column.nbytes * 2 + rows * (len(prefix) + 8) + 256, np.uint8)
    before = np.frombuffer(prefix, np.uint8)
    row = at = 0
    while row < rows:
        row, at, status, pc = encode_rows(out, at, row, rows, program.tables, columns, ends, before)
        if status == FULL:
            out = np.concatenate([out, np.empty(len(out), np.uint8)])
        elif status != FINISHED:
            raise UnwritableRow(int(row), program.reason(int(status), int(pc)))
    if at >= 1 << 31:
        raise OverflowError("more than 2 GB of records in one batch")
    nulls = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        nulls = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), rows, [nulls, pa.py_buffer(ends), pa.py_buffer(out[: int(at)])])
