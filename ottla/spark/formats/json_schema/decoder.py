"""Decoder for JSON Schema records: the JSON decoder after the schema id."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.schema_registry import Schema
from ottla.records.kernels import input_columns
from ottla.spark.formats.column_assembly import gathered
from ottla.spark.formats.json_decoder import Decoded, JsonDecoder
from ottla.spark.formats.json_schema.types import type_of
from ottla.spark.formats.json_types import arrow_type, check_type
from ottla.spark.formats.registered.schema_source import SchemaSource, referenced


class JsonSchemaFormat:
    """The writer schema does not matter: the text contains names and types."""

    def __init__(self, source: SchemaSource, reader: Schema, columns: str | None, part: str) -> None:
        """Build the decoder. `columns` are given columns as Spark JSON, or None if the schema determines them."""
        if columns is not None:
            from pyspark.sql.types import _parse_datatype_json_value

            self._kind: Any = _parse_datatype_json_value(json.loads(columns))
        else:
            self._kind = type_of(reader, referenced(source, reader))
        check_type(self._kind, part)
        self._decoder = JsonDecoder(self._kind, "UTC")

    @property
    def type(self) -> pa.DataType:
        return arrow_type(self._kind)

    def add(self, schema: Schema, referenced: dict[str, Schema], rest: bytes) -> int:
        return 0

    def decode(self, values: pa.BinaryArray, writers: Any, skipped: Any) -> Decoded:
        texts = input_columns.strings(values)
        wanted = writers >= 0
        starts = texts.ends[:-1].astype(np.int64) + skipped
        sizes = np.where(wanted, texts.ends[1:] - starts, 0)
        valid = None if wanted.all() else pa.py_buffer(np.packbits(wanted, bitorder="little"))
        return self._decoder.decode(gathered(texts.data, starts, sizes, valid))
