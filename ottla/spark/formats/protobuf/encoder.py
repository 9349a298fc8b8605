"""Encoder from a column to Protobuf messages, each after a prefix with schema id and message indexes."""

from __future__ import annotations

import pyarrow as pa

from ottla.client.schema_registry import Schema
from ottla.spark.formats.binary.encoded_column import encode_column
from ottla.spark.formats.column_reading import Filler, column_of
from ottla.spark.formats.column_tree import Layout
from ottla.spark.formats.protobuf.compiled_encode import encode_rows
from ottla.spark.formats.protobuf.encode_program import EncodeProgram
from ottla.spark.formats.protobuf.messages import ProtobufError, Types
from ottla.spark.formats.registered.schema_source import SchemaSource, referenced
from ottla.spark.options import OptionError


class ProtobufEncoder:
    """`indexes` locate the message in its file. They precede each record, unless a header contains them."""

    def __init__(
        self,
        source: SchemaSource,
        schema: Schema,
        columns: pa.DataType,
        part: str,
        *,
        in_header: bool = False,
    ) -> None:
        layout = Layout(column_of(columns))
        self._filler = Filler(layout)
        try:
            types = Types(schema, referenced(source, schema))
            name = types.by_indexes((0,)) if source.message is None else types.by_name(source.message)
            self.indexes = types.indexes_of(name) if source.registry is not None else b""
            self._prefix = b"" if in_header else self.indexes
            self._program = EncodeProgram(types, name, layout)
        except ProtobufError as error:
            raise OptionError(f"Column '{part}' cannot be written with its schema: {error}.") from None

    def encode(self, column: pa.Array, frame: bytes) -> pa.BinaryArray:
        return encode_column(encode_rows, self._program, self._filler, column, frame + self._prefix)
