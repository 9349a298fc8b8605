"""Converts Connect schemas to Arrow schemas, and values to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ottla.connect.connectors.values.plain import natural
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError

_PRIMITIVES = {
    SchemaType.INT8: pa.int8(),
    SchemaType.INT16: pa.int16(),
    SchemaType.INT32: pa.int32(),
    SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT32: pa.float32(),
    SchemaType.FLOAT64: pa.float64(),
    SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.STRING: pa.string(),
    SchemaType.BYTES: pa.binary(),
}
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "org.apache.kafka.connect.data.Time": pa.time32("ms"),
    "org.apache.kafka.connect.data.Timestamp": pa.timestamp("ms", tz="UTC"),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DIGITS = 38


def arrow_type(schema: Schema) -> Any:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.name == _DECIMAL:
        parameters = schema.parameters or {}
        digits = int(parameters.get("connect.decimal.precision", _DIGITS))
        return pa.decimal128(min(digits, _DIGITS), int(parameters.get("scale", "0")))
    if schema.type is SchemaType.STRUCT:
        return pa.struct([_field(field.name, field.schema) for field in schema.fields])
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        return pa.list_(_field("element", schema.value_schema))
    if schema.type is SchemaType.MAP and schema.value_schema is not None and schema.key_schema is not None:
        return pa.map_(arrow_type(schema.key_schema), _field("value", schema.value_schema))
    return _PRIMITIVES[schema.type]


def arrow_schema(schema: Schema) -> Any:
    return pa.schema([_field(field.name, field.schema) for field in schema.fields])


def _field(name: str, schema: Schema) -> Any:
    return pa.field(name, arrow_type(schema), nullable=schema.optional)


def arrow_table(rows: Sequence[Any], schema: Any | None = None) -> Any:
    """Build a table from structs or dicts. Without a schema, the values determine the types."""
    plain = [natural(row) for row in rows]
    try:
        if schema is not None:
            return pa.Table.from_pylist(plain, schema=schema)
        names = list(dict.fromkeys(name for row in plain for name in row))
        return pa.table({name: pa.array([row.get(name) for row in plain]) for name in names})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"Records do not fit into one table: {error}.") from None
