"""Schemas in kafka-connect-spooldir's notation, schema inference from files, and parsing of text into values."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.connect.data.schema import Schema, SchemaBuilder, SchemaType, array, mapping
from ottla.connect.errors import ConnectError, DataError

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DATE = "org.apache.kafka.connect.data.Date"
_TIME = "org.apache.kafka.connect.data.Time"
_TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
_BITS = {SchemaType.INT8: 7, SchemaType.INT16: 15, SchemaType.INT32: 31, SchemaType.INT64: 63}

Parser = Callable[[str], Any]


def parse_schema(setting: str, text: str) -> Schema:
    """Parse `{"name": "n", "type": "STRUCT", "isOptional": false, "fieldSchemas": {"id": {"type": "INT64"}}}`."""
    try:
        return _schema(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConnectError(f"{setting} is not a schema: {error!s}.") from None


def _schema(found: Mapping[str, Any]) -> Schema:
    try:
        type = SchemaType[str(found["type"]).upper()]
    except KeyError:
        raise ValueError(f"it has no known type in {json.dumps(found)}") from None
    optional = bool(found.get("isOptional", False))
    if type is SchemaType.STRUCT:
        builder = SchemaBuilder(found.get("name"), version=found.get("version"), optional=optional)
        for name, field in found.get("fieldSchemas", {}).items():
            builder.field(name, _schema(field))
        return builder.build()
    if type is SchemaType.ARRAY:
        return array(_schema(found["valueSchema"]), optional=optional)
    if type is SchemaType.MAP:
        return mapping(_schema(found["keySchema"]), _schema(found["valueSchema"]), optional=optional)
    parameters = found.get("parameters") or None
    return Schema(
        type,
        optional,
        found.get("defaultValue"),
        found.get("name"),
        found.get("version"),
        found.get("doc"),
        parameters,
    )


def generated(name: str, fields: Iterable[tuple[str, SchemaType]]) -> Schema:
    builder = SchemaBuilder(name or None)
    for field, type in fields:
        builder.field(field, Schema(type, optional=True))
    return builder.build()


def key_schema(value: Schema, name: str, fields: Sequence[str], where: str) -> Schema | None:
    if not fields:
        return None
    builder = SchemaBuilder(name or None)
    for each in fields:
        found = value.field(each)
        if found is None:
            raise DataError(f"{where} has no field {each!r}, which schema.generation.key.fields names.")
        builder.field(each, found.schema)
    return builder.build()


class TextParsers:
    """Parses text into values of a schema."""

    def __init__(self, formats: Sequence[str], timezone: str) -> None:
        self._formats = [_python_format(each) for each in formats]
        try:
            self._zone = zoneinfo.ZoneInfo(timezone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            raise ConnectError(f"parser.timestamp.timezone: there is no time zone {timezone!r}.") from None

    def of(self, schema: Schema) -> Parser:
        if schema.name == _DECIMAL:
            scale = int((schema.parameters or {}).get("scale", "0"))
            return lambda text: decimal.Decimal(text.strip()).quantize(decimal.Decimal(1).scaleb(-scale))
        if schema.name == _TIMESTAMP:
            return lambda text: self._when(text).astimezone(dt.UTC)
        if schema.name == _DATE:
            return lambda text: self._when(text, dates=True).date()
        if schema.name == _TIME:
            return lambda text: dt.time.fromisoformat(text.strip())
        if schema.type in _BITS:
            return _whole_number(_BITS[schema.type])
        if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
            return lambda text: float(text.strip())
        if schema.type is SchemaType.BOOLEAN:
            return _boolean
        if schema.type is SchemaType.BYTES:
            return lambda text: base64.b64decode(text, validate=True)
        if schema.type is SchemaType.STRING:
            return lambda text: text
        raise ConnectError(f"A field of a row cannot be of type {schema.type.value}.")

    def _when(self, text: str, dates: bool = False) -> dt.datetime:
        text = text.strip()
        for each in [*self._formats, *(["%Y-%m-%d"] if dates else [])]:
            try:
                found = dt.datetime.strptime(text, each)
            except ValueError:
                continue
            return found if found.tzinfo is not None else found.replace(tzinfo=self._zone)
        raise ValueError("it is in none of parser.timestamp.date.formats")


def _whole_number(bits: int) -> Parser:
    def parse(text: str) -> int:
        number = int(text.strip())
        if not -(1 << bits) <= number < 1 << bits:
            raise ValueError("it is too large")
        return number

    return parse


def _boolean(text: str) -> bool:
    found = text.strip().lower()
    if found not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return found == "true"


_LETTERS = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%m", "dd": "%d", "d": "%d",
    "HH": "%H", "H": "%H", "hh": "%I", "h": "%I", "mm": "%M", "m": "%M", "ss": "%S", "s": "%S",
    "SSS": "%f", "SSSSSS": "%f", "a": "%p", "Z": "%z", "X": "%z", "XX": "%z", "XXX": "%z", "z": "%Z",
    "EEE": "%a", "EEEE": "%A",
}  # fmt: skip


_TOKEN = re.compile(r"'(?P<quoted>[^']*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", re.DOTALL)


def _python_format(java: str) -> str:
    found = ""
    for token in _TOKEN.finditer(java):
        letters = token["letters"]
        if letters is None:
            found += (token["quoted"] or token["other"] or "").replace("%", "%%")
        elif letters in _LETTERS:
            found += _LETTERS[letters]
        else:
            raise ConnectError(f"parser.timestamp.date.formats: {letters!r} in {java!r} is not known here.")
    return found
