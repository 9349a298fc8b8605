"""Checks in the driver before writing: column types and schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.spark.formats.registered.writing import planned_encoding
from ottla.spark.sink.row_chunks import check_schema
from ottla.spark.sink.sink_options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def checked(options: SinkOptions, schema: StructType) -> SinkOptions:
    """Return the options with registered or existing schemas. Raises OptionError if columns cannot be written."""
    encodings = {"key": options.key_encoding, "value": options.value_encoding}
    encoded = tuple(part for part, encoding in encodings.items() if encoding is not None)
    check_schema(schema, options.topic, options.partition_column, encoded)
    planned: dict[str, Any] = {
        f"{part}_encoding": planned_encoding(encoding, schema[part].dataType, options.topic)
        for part, encoding in encodings.items()
        if encoding is not None and part in schema.names
    }
    return replace(options, **planned)
