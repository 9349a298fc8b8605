"""PostgreSQL types: Debezium's schema for each, and the parser for the text form."""

from __future__ import annotations

import base64
import datetime as dt
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ottla.connect.connectors.cdc import temporal
from ottla.connect.connectors.cdc.decimals import decimal_type
from ottla.connect.connectors.cdc.postgres.arrays import parse_array
from ottla.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    SchemaBuilder,
    SchemaType,
    array,
)
from ottla.connect.data.struct import Struct

Reader = Callable[[bytes], Any]


class PgType(NamedTuple):
    """The relevant columns of a pg_type row."""

    oid: int
    name: str
    #: b: base, e: enum, d: domain, r: range, c: composite.
    kind: str
    #: Element type of an array.
    element: int = 0
    #: Base type of a domain.
    base: int = 0
    base_modifier: int = -1
    labels: tuple[str, ...] = ()


class ColumnType(NamedTuple):
    schema: Schema
    read: Reader
    #: Substitute for a missing value in a required column.
    missing: Any


def named(type_: SchemaType, name: str, parameters: Mapping[str, str] | None = None) -> Schema:
    return Schema(type_, name=name, version=1, parameters=parameters)


_JSON = named(SchemaType.STRING, "io.debezium.data.Json")
_XML = named(SchemaType.STRING, "io.debezium.data.Xml")
_UUID = named(SchemaType.STRING, "io.debezium.data.Uuid")
_LTREE = named(SchemaType.STRING, "io.debezium.data.Ltree")
_POINT = replace(
    SchemaBuilder("io.debezium.data.geometry.Point", version=1)
    .field("x", FLOAT64)
    .field("y", FLOAT64)
    .field("wkb", BYTES.as_optional())
    .field("srid", INT32.as_optional())
    .build(),
    doc="Geometry (POINT)",
)

_TEXTS = {
    "text", "varchar", "bpchar", "char", "name", "citext", "inet", "cidr", "macaddr", "macaddr8", "tsvector", "tsquery",
    "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
}  # fmt: skip


def text_of(data: bytes) -> str:
    return data.decode()


_PLAIN: dict[str, ColumnType] = {
    "bool": ColumnType(BOOLEAN, lambda data: data == b"t", False),
    "int2": ColumnType(INT16, int, 0),
    "int4": ColumnType(INT32, int, 0),
    "int8": ColumnType(INT64, int, 0),
    "oid": ColumnType(INT64, int, 0),
    "float4": ColumnType(FLOAT32, float, 0.0),
    "float8": ColumnType(FLOAT64, float, 0.0),
    "json": ColumnType(_JSON, text_of, ""),
    "jsonb": ColumnType(_JSON, text_of, ""),
    "xml": ColumnType(_XML, text_of, ""),
    "uuid": ColumnType(_UUID, text_of, ""),
    "ltree": ColumnType(_LTREE, text_of, ""),
    **{name: ColumnType(STRING, text_of, "") for name in _TEXTS},
}


class Types:
    """Maps types according to the connector's settings. `lookup` finds rows of pg_type."""

    def __init__(self, settings: Mapping[str, Any], lookup: Callable[[int], PgType]) -> None:
        self._settings = settings
        self._lookup = lookup

    def column(self, oid: int, modifier: int, name: str) -> ColumnType | None:
        """Return None for types that are not captured."""
        found = self._lookup(oid)
        while found.kind == "d":
            modifier = found.base_modifier if modifier == -1 else modifier
            found = self._lookup(found.base)
        if found.kind == "e":
            allowed = {"allowed": ",".join(found.labels)}
            return ColumnType(named(SchemaType.STRING, "io.debezium.data.Enum", allowed), text_of, "")
        if found.element and found.name.startswith("_"):
            return self._array(found.element, modifier, name)
        plain = _PLAIN.get(found.name)
        if plain is not None:
            return plain
        make = _BY_SETTINGS.get(found.name)
        if make is not None:
            return make(self._settings, modifier, name)
        if found.kind == "r":
            return ColumnType(STRING, text_of, "")
        if self._settings["include.unknown.datatypes"]:
            return ColumnType(BYTES, bytes, b"")
        return None

    def _array(self, element: int, modifier: int, name: str) -> ColumnType | None:
        inner = self.column(element, modifier, name)
        if inner is None:
            return None
        read = of_schema(inner.read, inner.schema.as_optional())
        schema = array(inner.schema.as_optional())
        return ColumnType(
            schema, lambda data: parse_array(data.decode(), lambda text: read(text.encode())), []
        )


def of_schema(read: Reader, schema: Schema) -> Reader:
    """Make structs carry the field's own schema object, which says whether the field is optional."""
    if schema.type is not SchemaType.STRUCT:
        return read

    def read_struct(data: bytes) -> Any:
        made = read(data)
        made.schema = schema
        return made

    return read_struct


# Types that depend on settings. Modifiers are PostgreSQL's: length or precision, usually plus four.


def _numeric(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    precision = scale = None
    if modifier >= 4:
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    schema, read, missing = decimal_type(settings["decimal.handling.mode"], precision, scale, name)
    return ColumnType(schema, lambda data: read(data.decode()), missing)


def _money(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    schema, read, missing = decimal_type(
        settings["decimal.handling.mode"], None, settings["money.fraction.digits"], name
    )
    keep = re.compile(rb"[^0-9.-]")
    return ColumnType(schema, lambda data: read(keep.sub(b"", data).decode()), missing)


def _bytea(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    def binary(data: bytes) -> bytes:
        return bytes.fromhex(data[2:].decode())

    mode = settings["binary.handling.mode"]
    if mode == "hex":
        return ColumnType(STRING, lambda data: data[2:].decode(), "")
    if mode == "base64":
        return ColumnType(STRING, lambda data: base64.b64encode(binary(data)).decode(), "")
    if mode == "base64-url-safe":
        return ColumnType(STRING, lambda data: base64.urlsafe_b64encode(binary(data)).decode(), "")
    return ColumnType(BYTES, binary, b"")


def _digits(modifier: int) -> int:
    return 6 if modifier < 0 else modifier


def _date(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    schema, write, missing = temporal.date_type(settings["time.precision.mode"])
    return ColumnType(schema, lambda data: write(_parse_date(data.decode())), missing)


def _parse_date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return dt.date.max if text == "infinity" else dt.date.min


def _time(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    schema, write, missing = temporal.time_type(settings["time.precision.mode"], _digits(modifier))

    def read(data: bytes) -> Any:
        text = data.decode()
        # PostgreSQL allows 24:00 as the end of the day.
        midnight = text.startswith("24:")
        micros = 86_400_000_000 if midnight else temporal.micros_of_day(dt.time.fromisoformat(text))
        return write(micros)

    return ColumnType(schema, read, missing)


#: Debezium's values for "infinity" and "-infinity".
_INFINITIES = {b"infinity": 9_223_372_036_825_200_000, b"-infinity": -9_223_372_036_832_400_000}


def _timestamp(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    schema, write, missing = temporal.timestamp_type(settings["time.precision.mode"], _digits(modifier))
    from_text, micros_of = dt.datetime.fromisoformat, temporal.micros_of

    def read(data: bytes) -> Any:
        special = _INFINITIES.get(data)
        return write(micros_of(from_text(data.decode()))) if special is None else special

    return ColumnType(schema, read, missing)


def _timestamptz(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    digits = _digits(modifier)
    missing_fraction = "." + "0" * digits if digits else ""

    def read(data: bytes) -> str:
        # The session's time zone is UTC: 2024-02-03 04:05:06.789+00
        text = data.decode()
        if text in ("infinity", "-infinity"):
            return "292278994-08-17T07:12:55Z" if text == "infinity" else "-292275055-05-16T16:47:04Z"
        day, _, rest = text.partition(" ")
        time, _, fraction = rest.removesuffix("+00").partition(".")
        if digits == 0:
            return f"{day}T{time}Z"
        return f"{day}T{time}.{fraction:0<{digits}}Z"

    return ColumnType(temporal.ZONED_TIMESTAMP, read, f"1970-01-01T00:00:00{missing_fraction}Z")


def _timetz(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    def read(data: bytes) -> str:
        moment = dt.datetime.combine(dt.date(2000, 1, 2), dt.time.fromisoformat(data.decode()))
        time = moment.astimezone(dt.UTC).time()
        fraction = f".{time.microsecond:06}".rstrip("0") if time.microsecond else ""
        return f"{time.isoformat('seconds')}{fraction}Z"

    return ColumnType(temporal.ZONED_TIME, read, "00:00:00Z")


_ISO_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?"
)


def _interval(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    def parts(data: bytes) -> tuple[int, int, int, int, int, float]:
        matched = _ISO_INTERVAL.fullmatch(data.decode())
        assert matched is not None, data
        years, months, _, days, hours, minutes, seconds = matched.groups()
        whole = [int(each or 0) for each in (years, months, days, hours, minutes)]
        return (*whole, float(seconds or 0))  # type: ignore[return-value]

    def micros(data: bytes) -> int:
        years, months, days, hours, minutes, seconds = parts(data)
        # A month is one twelfth of 365.25 days.
        days_in_all = (years * 12 + months) * 365.25 / 12 + days
        return round(((days_in_all * 24 + hours) * 60 + minutes) * 60 * 1_000_000 + seconds * 1_000_000)

    def text(data: bytes) -> str:
        years, months, days, hours, minutes, seconds = parts(data)
        return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds:.6f}".rstrip("0").rstrip(".") + "S"

    if settings["interval.handling.mode"] == "string":
        return ColumnType(temporal.INTERVAL, text, "")
    return ColumnType(temporal.MICRO_DURATION, micros, 0)


def _bits(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    if modifier == 1:
        return ColumnType(BOOLEAN, lambda data: data == b"1", False)
    length = modifier if modifier > 0 else 2_147_483_647

    def read(data: bytes) -> bytes:
        # Little-endian, in as many bytes as the column needs.
        return int(data, 2).to_bytes((len(data) + 7) // 8, "little")

    return ColumnType(named(SchemaType.BYTES, "io.debezium.data.Bits", {"length": str(length)}), read, b"")


def _point(settings: Mapping[str, Any], modifier: int, name: str) -> ColumnType:
    def read(data: bytes) -> Struct:
        x, y = (float(each) for each in data.decode().strip("()").split(","))
        made = Struct(_POINT)
        made.values = [x, y, struct.pack("<BIdd", 1, 1, x, y), None]
        return made

    return ColumnType(_POINT, read, None)


_BY_SETTINGS: dict[str, Callable[[Mapping[str, Any], int, str], ColumnType]] = {
    "numeric": _numeric,
    "money": _money,
    "bytea": _bytea,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "timetz": _timetz,
    "interval": _interval,
    "bit": _bits,
    "varbit": _bits,
    "point": _point,
}
