"""Avro with schemas in a registry."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ottla.client.schema_registry import Schema
from ottla.spark.formats.avro.columns import node_of
from ottla.spark.formats.avro.decoder import AvroDecoder
from ottla.spark.formats.avro.encode_program import Unwritable
from ottla.spark.formats.avro.encoder import AvroEncoder
from ottla.spark.formats.avro.program import Unresolvable
from ottla.spark.formats.avro.schema import AvroSchemaError, Node, parse
from ottla.spark.formats.json_decoder import Decoded
from ottla.spark.formats.registered.decoder import Unreadable
from ottla.spark.formats.registered.schema_source import SchemaSource, referenced
from ottla.spark.options import OptionError


class AvroFormat:
    def __init__(self, source: SchemaSource, reader: Schema, columns: str | None, part: str) -> None:
        """Build the decoder. `columns` are given columns as Spark JSON, or None if the schema determines them."""
        if columns is not None:
            from pyspark.sql.types import _parse_datatype_json_value

            kind = _parse_datatype_json_value(json.loads(columns))
            self._decoder = AvroDecoder(node_of(kind, part), by_columns=True)
        else:
            self._decoder = AvroDecoder(_parsed_for_columns(source, reader))

    @property
    def type(self) -> pa.DataType:
        return self._decoder.type

    def add(self, schema: Schema, referenced: dict[str, Schema], rest: bytes) -> int:
        try:
            return self._decoder.add(parse(schema.text, [each.text for each in referenced.values()]))
        except (Unresolvable, AvroSchemaError) as error:
            raise Unreadable(str(error)) from None

    def decode(self, values: pa.BinaryArray, writers: Any, skipped: Any) -> Decoded:
        return self._decoder.decode(values, writers, skipped)


def avro_encoder(
    source: SchemaSource, schema: Schema, columns: pa.DataType, part: str, *, null_is_default: bool = False
) -> AvroEncoder:
    try:
        parsed = _parsed_for_columns(source, schema)
        return AvroEncoder(parsed, columns, null_is_default=null_is_default)
    except Unwritable as error:
        raise OptionError(f"Column '{part}' cannot be written with its schema: {error}.") from None


def _parsed_for_columns(source: SchemaSource, reader: Schema) -> Node:
    try:
        return parse(reader.text, [each.text for each in referenced(source, reader).values()])
    except AvroSchemaError as error:
        raise OptionError(f"The schema of Avro cannot be used: {error}.") from None
