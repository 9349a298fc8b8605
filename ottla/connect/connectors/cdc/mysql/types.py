"""MariaDB and MySQL types: Debezium's schema for each, and the conversion of values.

Values come in two forms: from PyMySQL in a snapshot, and from the binary log.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.connect.connectors.cdc import temporal
from ottla.connect.connectors.cdc.decimals import decimal_type
from ottla.connect.connectors.cdc.mysql.columns import ColumnForm
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
    SchemaType,
)


class ColumnType(NamedTuple):
    schema: Schema
    read: Callable[[Any], Any]
    #: Substitute for a missing value in a required column.
    missing: Any


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else bytes(value).decode(errors="replace")


def _named(type_: SchemaType, name: str, parameters: Mapping[str, str] | None = None) -> Schema:
    return Schema(type_, name=name, version=1, parameters=parameters)


_WHOLE = {"tinyint": INT16, "smallint": INT16, "mediumint": INT32, "int": INT32, "bigint": INT64}
_WIDER = {"smallint": INT32, "int": INT64}


def type_of(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType | None:
    """Return None for types that are not captured."""
    kind = form.kind
    if kind in _WHOLE:
        return _whole(form, settings)
    if kind == "float":
        return ColumnType(FLOAT32, float, 0.0)
    if kind in ("double", "real"):
        return ColumnType(FLOAT64, float, 0.0)
    if kind == "varchar":
        return ColumnType(STRING, _text, "")
    if kind == "json":
        return ColumnType(_named(SchemaType.STRING, "io.debezium.data.Json"), _json, "{}")
    if kind == "enum":
        allowed = {"allowed": ",".join(form.labels)}
        return ColumnType(_named(SchemaType.STRING, "io.debezium.data.Enum", allowed), _text, "")
    make = _BY_SETTINGS.get(kind)
    return make(form, settings) if make is not None else None


def _whole(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    if not form.unsigned:
        return ColumnType(_WHOLE[form.kind], _same, 0)
    if form.kind == "bigint":
        if settings["bigint.unsigned.handling.mode"] == "precise":
            schema, _, missing = decimal_type("precise", None, 0, form.name)
            return ColumnType(schema, decimal.Decimal, missing)
        # Values above the signed range become negative, as in Debezium.
        return ColumnType(INT64, lambda value: value - (1 << 64) if value >= 1 << 63 else value, 0)
    return ColumnType(_WIDER.get(form.kind, _WHOLE[form.kind]), _same, 0)


def _json(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else json.dumps(_decoded(value), ensure_ascii=False, separators=(",", ":"))
    )


def _decoded(value: Any) -> Any:
    """Decode the bytes that MySQL's binary JSON uses for texts."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return {_decoded(key): _decoded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return value


def _decimal(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    mode = settings["decimal.handling.mode"]
    schema, read, missing = decimal_type(mode, form.size, form.scale, form.name)
    return ColumnType(schema, lambda value: read(f"{value:.{form.scale}f}"), missing)


def _binary(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    length = form.size

    def binary(value: Any) -> bytes:
        data = value.encode("latin1") if isinstance(value, str) else bytes(value)
        # The log strips trailing zeros from fixed-length columns.
        return data.ljust(length, b"\0") if len(data) < length else data

    mode = settings["binary.handling.mode"]
    if mode == "hex":
        return ColumnType(STRING, lambda value: binary(value).hex(), "")
    if mode == "base64":
        return ColumnType(STRING, lambda value: base64.b64encode(binary(value)).decode(), "")
    if mode == "base64-url-safe":
        return ColumnType(STRING, lambda value: base64.urlsafe_b64encode(binary(value)).decode(), "")
    return ColumnType(BYTES, binary, b"")


def _date(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    schema, write, missing = temporal.date_type(settings["time.precision.mode"])
    # Invalid dates such as 0000-00-00 arrive as text.
    return ColumnType(schema, lambda value: None if isinstance(value, str) else write(value), missing)


_MICROSECOND = dt.timedelta(microseconds=1)


def _time(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    """A span of up to 838 hours, possibly negative."""
    mode = settings["time.precision.mode"]
    if mode == "adaptive":
        mode = "adaptive_time_microseconds"
    schema, write, missing = temporal.time_type(mode, form.size)
    return ColumnType(schema, lambda value: write(value // _MICROSECOND), missing)


def _datetime(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    schema, write, missing = temporal.timestamp_type(settings["time.precision.mode"], form.size)
    micros_of = temporal.micros_of
    return ColumnType(
        schema, lambda value: None if isinstance(value, str) else write(micros_of(value)), missing
    )


def _timestamp(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    digits = form.size

    def read(value: Any) -> str | None:
        if isinstance(value, str):
            return None
        text: str = value.strftime("%Y-%m-%dT%H:%M:%S")
        return f"{text}.{value.microsecond:06}"[: len(text) + 1 + digits] + "Z" if digits else f"{text}Z"

    return ColumnType(temporal.ZONED_TIMESTAMP, read, "1970-01-01T00:00:00Z")


def _year(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    return ColumnType(temporal.YEAR, int, 0)


def _set(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    labels = form.labels

    def read(value: Any) -> str:
        return (
            _text(value)
            if isinstance(value, str | bytes)
            else ",".join(each for each in labels if each in value)
        )

    allowed = {"allowed": ",".join(labels)}
    return ColumnType(_named(SchemaType.STRING, "io.debezium.data.EnumSet", allowed), read, "")


def _bit(form: ColumnForm, settings: Mapping[str, Any]) -> ColumnType:
    size = form.size

    def number(value: Any) -> int:
        return int(value, 2) if isinstance(value, str) else int.from_bytes(value, "big")

    if size == 1:
        return ColumnType(BOOLEAN, lambda value: number(value) != 0, False)
    schema = _named(SchemaType.BYTES, "io.debezium.data.Bits", {"length": str(size)})
    return ColumnType(schema, lambda value: number(value).to_bytes((size + 7) // 8, "little"), b"")


_BY_SETTINGS: dict[str, Callable[[ColumnForm, Mapping[str, Any]], ColumnType]] = {
    "decimal": _decimal,
    "binary": _binary,
    "varbinary": _binary,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "timestamp": _timestamp,
    "year": _year,
    "set": _set,
    "bit": _bit,
}
