"""Valid and invalid records of all kinds."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32
from ottla.connect.data.record import ConnectRecord, Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    SchemaBuilder,
    SchemaType,
    array,
    mapping,
)  # fmt: skip
from ottla.connect.data.struct import Struct

WHEN = dt.datetime(2024, 2, 29, 13, 5, 59, 123000, dt.UTC)

CITY = SchemaBuilder("City").field("name", STRING).field("zip.code", OPTIONAL_STRING).build()
WITH_DEFAULTS = SchemaBuilder("Defaults", version=7) \
    .field("a", Schema(SchemaType.STRING, True, "dflt")) \
    .field("b", Schema(SchemaType.INT32, True, 42)) \
    .field("c", Schema(SchemaType.INT64, False, 7)).build()  # fmt: skip
ALL = (
    SchemaBuilder("All")
    .field("a", STRING).field("b", INT32).field("c", OPTIONAL_INT64).field("i8", INT8).field("i16", INT16)
    .field("f32", FLOAT32).field("f64", FLOAT64).field("ok", BOOLEAN).field("raw", BYTES)
    .field("amount", logical.decimal_schema(2)).field("day", logical.DATE_SCHEMA).field("clock", logical.TIME_SCHEMA)
    .field("at", logical.TIMESTAMP_SCHEMA).field("maybe", logical.TIMESTAMP_SCHEMA.as_optional())
    .field("tags", array(STRING)).build()
)  # fmt: skip
NESTED = (
    SchemaBuilder("Nested").field("a", STRING).field("city", CITY).field("other", CITY.as_optional()).build()
)
WITH_MAP = SchemaBuilder("M").field("a", STRING).field("m", mapping(STRING, INT32)).build()
OPTIONAL_STRUCT = SchemaBuilder("Opt", optional=True).field("a", STRING).field("ts", INT64).build()


def all_types(**changes: Any) -> Struct:
    values: dict[str, Any] = {
        "a": "12", "b": 300, "c": None, "i8": -5, "i16": 1000, "f32": 1.1, "f64": -2.5e10, "ok": True, "raw": b"\x00\xff",
        "amount": decimal.Decimal("12.34"), "day": dt.date(2024, 2, 29), "clock": dt.time(1, 2, 3, 4000), "at": WHEN,
        "maybe": None, "tags": ["x", "y"],
    }  # fmt: skip
    return Struct(ALL, values | changes)


PLAIN: list[Any] = [
    None, "text", "2024-02-29 13:05:59", "12", "-7.5", "true", "", 5, 1709211959123, -1, 300, 1 << 40, 2.75, -0.0,
    float("nan"), float("inf"), 1e20, Float32(1.5), True, b"\x01\x02", [1, "a"],
    {}, {"a": "x", "b": 1, "ts": 1709211959123, "ok": False, "n": None, "f": 1.5},
    {"a": "2024-02-29", "b": {"c": 1, "d": {"e": [1, 2]}}, "ts": "2024-02-29 13:05:59"},
    {"a": 12.7, "b": "128", "ts": 0}, {"a": b"x", "b": [1]}, {"city": {"name": "Prague", "zip.code": "110"}, "a.b": 1},
    {"a": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "ts": WHEN}, WHEN, decimal.Decimal("1.50"),
]  # fmt: skip

WITH_SCHEMA: list[tuple[Schema, Any]] = [
    (STRING, "x"), (OPTIONAL_STRING, None), (INT32, 5), (INT64, 1709211959123), (INT64, -1), (FLOAT32, 1.1),
    (FLOAT64, 1e300), (BOOLEAN, True), (BYTES, b"\x01"), (STRING, "2024-02-29 13:05:59"), (STRING, "300"),
    (logical.TIMESTAMP_SCHEMA, WHEN), (logical.DATE_SCHEMA, dt.date(1969, 12, 31)), (logical.TIME_SCHEMA, dt.time(23)),
    (logical.decimal_schema(1), decimal.Decimal("1.5")), (array(INT32), [1, 2]), (mapping(STRING, INT32), {"a": 1}),
    (ALL, all_types()), (ALL, all_types(c=-1, f32=-0.0, f64=float("inf"), a="999", maybe=WHEN)),
    (ALL, all_types(a="2024-02-29 13:05:59", c=1709211959123)),
    (WITH_DEFAULTS, Struct(WITH_DEFAULTS)), (WITH_DEFAULTS, Struct(WITH_DEFAULTS, {"a": "set", "c": 1})),
    (NESTED, Struct(NESTED, {"a": "x", "city": Struct(CITY, {"name": "Prague", "zip.code": "110"})})),
    (NESTED, Struct(NESTED, {"a": "x", "city": Struct(CITY, {"name": "P"}), "other": Struct(CITY.as_optional(), {"name": "Q"})})),
    (WITH_MAP, Struct(WITH_MAP, {"a": "x", "m": {"k": 1}})),
    (OPTIONAL_STRUCT, Struct(OPTIONAL_STRUCT, {"a": "x", "ts": 1})), (OPTIONAL_STRUCT, None),
]  # fmt: skip

HEADERS = [Header("h1", "v", STRING), Header("h2", 5, INT32), Header("h1", None), Header("h3", {"a": 1})]


def records(*, of_key: bool = False) -> list[ConnectRecord]:
    """Return keys for key transforms and values for others; the other part is trivial."""
    found: list[ConnectRecord] = []
    parts: list[tuple[Schema | None, Any]] = [*((None, each) for each in PLAIN), *WITH_SCHEMA]
    for number, (schema, value) in enumerate(parts):
        about: dict[str, Any] = {"topic": "orders-1", "timestamp": None if number % 7 == 3 else 1709211959123}
        about["headers"] = HEADERS if number % 3 == 0 else []
        if of_key:
            about |= {"key": value, "key_schema": schema, "value": "v", "value_schema": STRING}
        else:
            about |= {"value": value, "value_schema": schema, "key": "k", "key_schema": STRING}
        if number % 2:
            found.append(
                SinkRecord(**about, partition=3, offset=42, original_topic="orders-1", original_partition=3)
            )
        else:
            found.append(SourceRecord(**about, partition=None if number % 4 else 1))
    return found
