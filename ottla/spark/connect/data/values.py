"""Values as texts and back, as Kafka's `Values` does for headers: `[1,2]` becomes an array of numbers."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import re
from collections.abc import Mapping
from typing import Any

from ottla.spark.connect.data import logical
from ottla.spark.connect.data import schema as schemas
from ottla.spark.connect.data.java_values import as_float32, java_class_name, java_text
from ottla.spark.connect.data.schema import Schema, SchemaType
from ottla.spark.connect.data.struct import Struct
from ottla.spark.connect.errors import DataError

SchemaAndValue = tuple[Schema | None, Any]


def value_to_string(value: Any) -> str | None:
    return None if value is None else _text(value, embedded=False)


def _text(value: Any, *, embedded: bool) -> str:
    if isinstance(value, str):
        return _quoted(value) if embedded else value
    if value is None or isinstance(value, bool | int | float | decimal.Decimal):
        return java_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(each, embedded=True) for each in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(_entry(key, each) for key, each in value.items()) + "}"
    if isinstance(value, Struct):
        return "{" + ",".join(_entry(each.name, value.get(each.name)) for each in value.schema.fields) + "}"
    if isinstance(value, dt.date | dt.time):
        return moment_to_string(logical.millis_of(value))
    raise DataError(f"Failed to serialize unexpected value type {java_class_name(value)}: {value}")


def _entry(key: Any, value: Any) -> str:
    return f"{_text(key, embedded=True)}:{_text(value, embedded=True)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def moment_to_string(millis: int) -> str:
    """A time if it is on the first day of 1970, a date if it is midnight, else both."""
    if millis < logical.DAY_MS:
        return _clock(millis % logical.DAY_MS)
    day = logical.date_from_days(millis // logical.DAY_MS).isoformat()
    rest = millis % logical.DAY_MS
    return f"{day}T{_clock(rest)}" if rest else day


def _clock(millis: int) -> str:
    seconds, rest = divmod(millis, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}Z"


# Parsing

_NULL: SchemaAndValue = (None, None)
_TOKENS = re.compile(r'(?:\\.|[^"\\,:{}\[\]])+|["\\,:{}\[\]]', re.DOTALL)
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def parse_string(text: str | None) -> SchemaAndValue:
    """The value that a text most likely is, with its schema; at last the text itself."""
    if text is None:
        return _NULL
    if not text:
        return schemas.STRING, text
    if text == "null":
        return _NULL
    parser = _Parser(text)
    try:
        found = parser.value(embedded=False)
    except _NotParsed:
        return schemas.STRING, text
    if parser.position < len(text) and text[parser.position :].strip():
        return schemas.STRING, text
    return found


class _NotParsed(Exception):
    pass


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def _skip(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def _consume(self, expected: str) -> bool:
        self._skip()
        if self.text.startswith(expected, self.position):
            self.position += len(expected)
            return True
        return False

    def _word(self, expected: str) -> bool:
        """A literal that ends here: `true`, but not `trueish`."""
        self._skip()
        end = self.position + len(expected)
        if self.text[self.position : end].lower() == expected and self.text[end : end + 1] in (
            "",
            ",",
            ":",
            "]",
            "}",
            " ",
        ):
            self.position = end
            return True
        return False

    def value(self, *, embedded: bool) -> SchemaAndValue:
        if embedded and self._consume('"'):
            return schemas.STRING, self._quoted()
        if self._word("null"):
            return _NULL
        if self._word("true"):
            return schemas.BOOLEAN, True
        if self._word("false"):
            return schemas.BOOLEAN, False
        if self._consume("["):
            return self._array()
        if self._consume("{"):
            return self._map()
        self._skip()
        rest = self.text[self.position :]
        for pattern, read in ((_TIMESTAMP, _timestamp), (_DATE, _date), (_TIME, _time)):
            found = pattern.match(rest)
            if found is not None and rest[found.end() : found.end() + 1] in ("", ",", ":", "]", "}", " "):
                self.position += found.end()
                return read(found)
        end = self.position
        while end < len(self.text) and self.text[end] not in '"\\,:{}[]':
            end += 1
        token = self.text[self.position : end].strip()
        if _NUMBER.fullmatch(token):
            self.position = end
            return parse_number(token)
        raise _NotParsed

    def _quoted(self) -> str:
        written: list[str] = []
        while self.position < len(self.text):
            letter = self.text[self.position]
            self.position += 1
            if letter == '"':
                return "".join(written)
            if letter == "\\" and self.position < len(self.text):
                letter = self.text[self.position]
                self.position += 1
            written.append(letter)
        raise _NotParsed

    def _array(self) -> SchemaAndValue:
        values: list[Any] = []
        common: Schema | None = None
        known = True
        while True:
            if self._consume("]"):
                of = common.as_optional() if common is not None and known else None
                return Schema(SchemaType.ARRAY, value_schema=of), values
            if values and not self._consume(","):
                raise _NotParsed
            if self._consume(","):
                raise _NotParsed
            schema, value = self.value(embedded=True)
            values.append(value)
            common, known = _merged(common, schema, known)

    def _map(self) -> SchemaAndValue:
        found: dict[Any, Any] = {}
        key_schema = value_schema = None
        keys_known = values_known = True
        while True:
            if self._consume("}"):
                return (
                    Schema(
                        SchemaType.MAP,
                        key_schema=key_schema.as_optional()
                        if key_schema is not None and keys_known
                        else None,
                        value_schema=value_schema.as_optional()
                        if value_schema is not None and values_known
                        else None,
                    ),
                    found,
                )
            if found and not self._consume(","):
                raise _NotParsed
            schema, key = self.value(embedded=True)
            if not self._consume(":"):
                raise _NotParsed
            of, value = self.value(embedded=True)
            found[key] = value
            key_schema, keys_known = _merged(key_schema, schema, keys_known)
            value_schema, values_known = _merged(value_schema, of, values_known)


_WIDTHS = [
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
]


def _merged(one: Schema | None, other: Schema | None, known: bool) -> tuple[Schema | None, bool]:
    """A schema that both values fit: the wider of two numbers, or none."""
    if not known or other is None:
        return one, known
    if one is None or one == other:
        return other, True
    if one.type in _WIDTHS and other.type in _WIDTHS and one.name == other.name is None:
        return (one if _WIDTHS.index(one.type) >= _WIDTHS.index(other.type) else other), True
    return None, False


def parse_number(token: str) -> SchemaAndValue:
    number = decimal.Decimal(token)
    whole = number.to_integral_value()
    if whole == number:
        value = int(whole)
        for schema, bits in (
            (schemas.INT8, 7),
            (schemas.INT16, 15),
            (schemas.INT32, 31),
            (schemas.INT64, 63),
        ):
            if -(1 << bits) <= value < 1 << bits:
                return schema, value
        return logical.decimal_schema(0), logical.decimal_of(value, 0)
    single = as_float32(float(number))
    if single not in (float("inf"), float("-inf")):
        return schemas.FLOAT32, single
    double = float(number)
    if double not in (float("inf"), float("-inf")):
        return schemas.FLOAT64, double
    exponent = number.as_tuple().exponent
    return logical.decimal_schema(-int(exponent)), number


def _timestamp(found: re.Match[str]) -> SchemaAndValue:
    year, month, day, hour, minute, second, millis = map(int, found.groups())
    try:
        moment = dt.datetime(year, month, day, hour, minute, second, millis * 1000, dt.UTC)
    except ValueError:
        raise _NotParsed from None
    return logical.TIMESTAMP_SCHEMA, moment


def _date(found: re.Match[str]) -> SchemaAndValue:
    try:
        return logical.DATE_SCHEMA, dt.date(*map(int, found.groups()))
    except ValueError:
        raise _NotParsed from None


def _time(found: re.Match[str]) -> SchemaAndValue:
    hour, minute, second, millis = map(int, found.groups())
    try:
        return logical.TIME_SCHEMA, dt.time(hour, minute, second, millis * 1000)
    except ValueError:
        raise _NotParsed from None
