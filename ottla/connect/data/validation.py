"""Validates values against schemas, with the messages of Kafka's ConnectSchema.validateValue."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.java_values import java_class
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import DataError


def validate_value(schema: Schema, value: Any, location: str = "value") -> None:
    """Raises DataError. `location` describes the value in the message: `field: "a"`."""
    if value is None:
        if not schema.optional:
            raise DataError(
                f"Invalid value: null used for required {location}, schema type: {schema.type.name}"
            )
        return
    fits = LOGICAL_TYPES.get(schema.name) if schema.name is not None else None
    if fits is None:
        fits = TYPES[schema.type]
    if not fits(value):
        named = f' "{schema.name}"' if schema.name is not None else ""
        raise DataError(
            f"Invalid Java object for schema{named} with type {schema.type.name}: "
            f"{java_class(value)} for {location}"
        )
    if schema.type is SchemaType.STRUCT:
        if value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        for each in value:
            validate_value(schema.value_schema, each, f"element of array {location}")
    elif schema.type is SchemaType.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        for key, each in value.items():
            validate_value(schema.key_schema, key, f"key of map {location}")
            validate_value(schema.value_schema, each, f"value of map {location}")


def _whole(bits: int) -> Callable[[Any], bool]:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def fits(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return fits


def _of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _number(value: Any) -> bool:
    return isinstance(value, float)


TYPES: dict[SchemaType, Callable[[Any], bool]] = {
    SchemaType.INT8: _whole(8),
    SchemaType.INT16: _whole(16),
    SchemaType.INT32: _whole(32),
    SchemaType.INT64: _whole(64),
    SchemaType.FLOAT32: _number,
    SchemaType.FLOAT64: _number,
    SchemaType.BOOLEAN: _of(bool),
    SchemaType.STRING: _of(str),
    SchemaType.BYTES: _of(bytes, bytearray, memoryview),
    SchemaType.ARRAY: _of(list, tuple),
    SchemaType.MAP: _of(Mapping),
    # struct.py adds SchemaType.STRUCT.
}

LOGICAL_TYPES: dict[str, Callable[[Any], bool]] = {
    logical.DECIMAL: _of(decimal.Decimal),
    logical.DATE: _of(dt.date),
    logical.TIME: _of(dt.time, dt.datetime),
    logical.TIMESTAMP: _of(dt.datetime),
}
