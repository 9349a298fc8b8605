"""Values of a statement as input for encoders. Times are numbers of milliseconds or days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ottla.client.errors import ClientError
from ottla.sql.registered.codecs import PartCodec
from ottla.sql.registered.conversions import field_like
from ottla.sql.sql_types import Field, SqlType


def encoded_record(codec: PartCodec, given: Mapping[str, Any]) -> bytes | None:
    """Encode a record. Raises ClientError if the values do not fit the schema."""
    assert codec.wanted is not None
    if codec.bare:
        [field] = codec.fields
        [data] = codec.encode([_plain(given.get(field.name), codec.wanted, field.type)], codec.wanted)
        return data
    kind = _only(codec.wanted, codec.fields)
    row = _struct({each.name: given.get(each.name) for each in codec.fields}, kind, codec.fields)
    [data] = codec.encode([row], kind)
    return data


def _only(kind: pa.DataType, fields: Sequence[Field]) -> pa.DataType:
    """Drop fields without columns, which get their defaults."""
    found = []
    for field in fields:
        wanted = field_like(kind, field.name)
        if wanted is None:
            raise ClientError(f"The schema has no field {field.name}.")
        found.append(pa.field(wanted.name, _pruned(wanted.type, field.type)))
    return pa.struct(found)


def _pruned(kind: pa.DataType, sql: SqlType) -> pa.DataType:
    if sql.name == "STRUCT":
        return _only(kind, sql.fields)
    if sql.name == "ARRAY" and sql.element is not None:
        return pa.list_(pa.field("element", _pruned(kind.value_type, sql.element)))
    if sql.name == "MAP" and sql.element is not None and pa.types.is_map(kind):
        return pa.map_(kind.key_type, _pruned(kind.item_type, sql.element))
    return kind


def _struct(value: Mapping[str, Any], kind: pa.DataType, fields: Sequence[Field]) -> dict[str, Any]:
    return {
        kind.field(index).name: _plain(value.get(field.name), kind.field(index).type, field.type)
        for index, field in enumerate(fields)
    }


def _plain(value: Any, kind: pa.DataType, sql: SqlType) -> Any:
    if value is None:
        return None
    if sql.name == "STRUCT":
        return _struct(value, kind, sql.fields)
    if sql.name == "ARRAY":
        assert sql.element is not None
        return [_plain(each, kind.value_type, sql.element) for each in value]
    if sql.name == "MAP":
        assert sql.element is not None
        if pa.types.is_list(kind):
            item = kind.value_type.field(1).type
            return [{"key": key, "value": _plain(each, item, sql.element)} for key, each in value.items()]
        convert = str if pa.types.is_string(kind.key_type) else int
        return [(convert(key), _plain(each, kind.item_type, sql.element)) for key, each in value.items()]
    if sql.name == "TIMESTAMP":
        return value * 1000
    if sql.name == "TIME":
        return _time(value, kind)
    if pa.types.is_struct(kind):
        return _date(value) if sql.name == "DATE" else _decimal(value, sql)
    return float(value) if pa.types.is_floating(kind) else value


def _time(millis: int, kind: pa.DataType) -> Any:
    if not pa.types.is_struct(kind):
        return millis if kind == pa.int32() else millis * 1000
    seconds = millis // 1000
    return {
        "hours": seconds // 3600,
        "minutes": seconds // 60 % 60,
        "seconds": seconds % 60,
        "nanos": millis % 1000 * 1_000_000,
    }


def _date(days: int) -> dict[str, int]:
    day = date(1970, 1, 1) + timedelta(days=days)
    return {"year": day.year, "month": day.month, "day": day.day}


def _decimal(value: Decimal, sql: SqlType) -> dict[str, Any]:
    number = int(value.scaleb(sql.scale))
    return {
        "value": number.to_bytes(8, "big", signed=True),
        "precision": sql.precision,
        "scale": sql.scale,
    }
