"""Converts structs to dicts, and values to JSON like Kafka's JsonConverter without schemas."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Mapping
from typing import Any

from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


def natural(value: Any) -> Any:
    """Convert structs to dicts recursively. Numbers, dates and times stay unchanged."""
    if isinstance(value, Struct):
        return {field.name: natural(value.get(field.name)) for field in value.schema.fields}
    if isinstance(value, Mapping):
        return {key: natural(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [natural(each) for each in value]
    return value


def to_json(value: Any) -> str:
    return json.dumps(jsonable(value), separators=(",", ":"), ensure_ascii=False)


def jsonable(value: Any) -> Any:
    if isinstance(value, Struct):
        return {field.name: jsonable(value.get(field.name)) for field in value.schema.fields}
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return base64.b64encode(_unscaled(value)).decode()
    if isinstance(value, dt.datetime):
        return milliseconds(value)
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH_DAY
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return value


def milliseconds(when: dt.datetime) -> int:
    """Return milliseconds since 1970. Naive times are UTC."""
    when = when.replace(tzinfo=dt.UTC) if when.tzinfo is None else when
    return (when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def _unscaled(value: decimal.Decimal) -> bytes:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    number = -number if sign else number
    size = ((number if number >= 0 else ~number).bit_length() >> 3) + 1
    return number.to_bytes(size, "big", signed=True)


def field_value(value: Any, path: str) -> Any:
    """Return a field, possibly nested (`a.b`), of a struct or dict. Raises KeyError."""
    if isinstance(value, Struct):
        if value.schema.field(path) is not None:
            return value.get(path)
    elif isinstance(value, Mapping):
        if path in value:
            return value[path]
    else:
        raise KeyError(path)
    first, dot, rest = path.partition(".")
    if not dot:
        raise KeyError(path)
    return field_value(field_value(value, first), rest)


def projected(value: Struct, schema: Schema) -> Struct:
    """Convert a struct to another schema. Missing fields become null or the default. Raises KeyError."""
    found = Struct(schema)
    for number, field in enumerate(schema.fields):
        if value.schema.field(field.name) is not None:
            each = value.get_without_default(field.name)
            inner = isinstance(each, Struct) and field.schema.type is SchemaType.STRUCT
            found.values[number] = projected(each, field.schema) if inner else each
        elif not field.schema.optional and field.schema.default is None:
            raise KeyError(field.name)
    return found
