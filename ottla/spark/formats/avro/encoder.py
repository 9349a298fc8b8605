"""Encoder from a column to Avro records, each after a prefix with its schema id."""

from __future__ import annotations

import pyarrow as pa

from ottla.spark.formats.avro.compiled_encode import encode_rows
from ottla.spark.formats.avro.encode_program import EncodeProgram
from ottla.spark.formats.avro.schema import Node
from ottla.spark.formats.binary.encoded_column import encode_column
from ottla.spark.formats.column_reading import Filler, column_of
from ottla.spark.formats.column_tree import Layout


class AvroEncoder:
    """For columns of one type. Raises Unwritable if the schema does not fit them."""

    def __init__(self, schema: Node, kind: pa.DataType, *, null_is_default: bool = False) -> None:
        layout = Layout(column_of(kind))
        self._filler = Filler(layout)
        self._program = EncodeProgram(schema, layout, null_is_default=null_is_default)

    def encode(self, column: pa.Array, frame: bytes = b"") -> pa.BinaryArray:
        """Encode the rows. Null rows stay null."""
        return encode_column(encode_rows, self._program, self._filler, column, frame)
