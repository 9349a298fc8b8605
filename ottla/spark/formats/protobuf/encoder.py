"""A column to messages of Protobuf, each after the bytes that name its schema and its place in that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.client.schema_registry import Schema
from ottla.spark.formats.column_reading import Filler, column_of
from ottla.spark.formats.column_tree import Layout
from ottla.spark.formats.protobuf.compiled_encode import encode_rows
from ottla.spark.formats.protobuf.encode_operations import FINISHED, FULL
from ottla.spark.formats.protobuf.encode_program import EncodeProgram
from ottla.spark.formats.protobuf.messages import ProtobufError, Types
from ottla.spark.formats.registered.schema_source import SchemaSource, referenced
from ottla.spark.formats.registered.writing import UnwritableRow
from ottla.spark.options import OptionError


class ProtobufEncoder:
    def __init__(self, source: SchemaSource, schema: Schema, columns: pa.DataType, part: str) -> None:
        layout = Layout(column_of(columns))
        self._filler = Filler(layout)
        try:
            types = Types(schema, referenced(source, schema))
            name = types.by_indexes((0,)) if source.message is None else types.by_name(source.message)
            self._indexes = types.indexes_of(name) if source.registry is not None else b""
            self._program = EncodeProgram(types, name, layout)
        except ProtobufError as error:
            raise OptionError(f"Column '{part}' cannot be written with its schema: {error}.") from None

    def encode(self, column: pa.Array, frame: bytes) -> pa.BinaryArray:
        rows = len(column)
        columns = self._filler.fill(column)
        ends = np.zeros(rows + 1, np.int32)
        prefix = np.frombuffer(frame + self._indexes, np.uint8)
        out = np.empty(column.nbytes * 2 + rows * (len(prefix) + 8) + 256, np.uint8)
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
