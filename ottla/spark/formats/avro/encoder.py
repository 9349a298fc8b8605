"""A column to records of Avro, each after the bytes that name its schema."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.spark.formats.avro.compiled_encode import encode_rows
from ottla.spark.formats.avro.encode_operations import FINISHED, FULL
from ottla.spark.formats.avro.encode_program import EncodeProgram
from ottla.spark.formats.avro.schema import Node
from ottla.spark.formats.column_reading import Filler, column_of
from ottla.spark.formats.column_tree import Layout
from ottla.spark.formats.registered.writing import UnwritableRow


class AvroEncoder:
    """For columns of one type. Unwritable, if the schema cannot hold what they hold."""

    def __init__(self, schema: Node, kind: pa.DataType) -> None:
        layout = Layout(column_of(kind))
        self._filler = Filler(layout)
        self._program = EncodeProgram(schema, layout)

    def encode(self, column: pa.Array, frame: bytes = b"") -> pa.BinaryArray:
        """Records, and null where the column is."""
        rows = len(column)
        columns = self._filler.fill(column)
        ends = np.zeros(rows + 1, np.int32)
        out = np.empty(column.nbytes * 2 + rows * (len(frame) + 8) + 256, np.uint8)
        prefix = np.frombuffer(frame, np.uint8)
        row = at = 0
        while row < rows:
            row, at, status, pc = encode_rows(out, at, row, rows, self._program.tables, columns, ends, prefix)
            if status == FULL:
                out = np.concatenate([out, np.empty(len(out), np.uint8)])
            elif status != FINISHED:
                raise UnwritableRow(int(row), self._program.reason(int(status), int(pc)))
        if at >= 1 << 31:
            raise OverflowError("more than 2 GB of records in one batch")
        nulls = None
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            nulls = pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(
            pa.binary(), rows, [nulls, pa.py_buffer(ends), pa.py_buffer(out[: int(at)])]
        )
