"""Converts values to text and back, like Kafka's `Values` for headers: `[1,2]` becomes an array of numbers."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import re
from collections.abc import Mapping
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data import schema as schemas
from ottla.connect.data.java_dates import date_format
from ottla.connect.data.java_values import as_float32, java_class_name, java_text
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError

SchemaAndValue = tuple[Schema | None, Any]


def value_to_string(value: Any, schema: Schema | None = None) -> str | None:
    return None if value is None else _text(value, schema, embedded=False)


def _text(value: Any, schema: Schema | None, *, embedded: bool) -> str:
    if isinstance(value, str):
        return _quoted(value) if embedded else value
    if value is None or isinstance(value, bool | int | float | decimal.Decimal):
        return java_text(value, single=schema is not None and schema.type is SchemaType.FLOAT32)
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = base64.b64encode(bytes(value)).decode()
        return f'"{encoded}"' if embedded else encoded
    of_key, of_value = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(each, of_value, embedded=True) for each in value) + "]"
    if isinstance(value, Mapping):
        entries = (
            f"{_text(key, of_key, embedded=True)}:{_text(each, of_value, embedded=True)}"
            for key, each in value.items()
        )
        return "{" + ",".join(entries) + "}"
    if isinstance(value, Struct):
        fields = (
            f"{_quoted(each.name)}:{_text(value.get(each.name), each.schema, embedded=True)}"
            for each in value.schema.fields
        )
        return "{" + ",".join(fields) + "}"
    if isinstance(value, dt.date | dt.time):
        return moment_to_string(logical.millis_of(value))
    raise DataError(f"Failed to serialize unexpected value type {java_class_name(value)}: {value}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def moment_to_string(millis: int) -> str:
    """Format a time on the first day of 1970 as a time, midnight as a date, and other moments as both."""
    if millis < logical.DAY_MS:
        return _clock(millis % logical.DAY_MS)
    day = date_format("yyyy-MM-dd").format(millis)
    rest = millis % logical.DAY_MS
    return f"{day}T{_clock(rest)}" if rest else day


def _clock(millis: int) -> str:
    seconds, rest = divmod(millis, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}Z"


# Parsing

_NULL: SchemaAndValue = (None, None)
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_NUMBER = re.compile(r"(?:[0-9]|[+-](?=[0-9.]))[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?")


def parse_string(text: str | None) -> SchemaAndValue:
    """Infer the most likely value and schema of a text. The fallback is the text itself."""
    if text is None:
        return _NULL
    if not text:
        return schemas.STRING, text
    if text == "null":
        return _NULL
    try:
        return _Parser(text).value(embedded=False)  # trailing text is ignored
    except (_NotParsed, RecursionError):
        return schemas.STRING, text


_ENDS = ("", ",", ":", "]", "}", " ")
_WORDS: dict[str, SchemaAndValue] = {
    "null": _NULL,
    "true": (schemas.BOOLEAN, True),
    "false": (schemas.BOOLEAN, False),
}


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

    def _word(self, expected: str, *, whole: bool) -> bool:
        """Consume a literal such as `true`, but not in `trueish`. `whole` allows nothing after it."""
        self._skip()
        end = self.position + len(expected)
        if self.text[self.position : end] != expected:
            return False
        if self.text[end:].strip() if whole else self.text[end : end + 1] not in _ENDS:
            return False
        self.position = end
        return True

    def value(self, *, embedded: bool) -> SchemaAndValue:
        if embedded and self._consume('"'):
            return schemas.STRING, self._quoted()
        for word, meant in _WORDS.items():
            if self._word(word, whole=not embedded):
                return meant
        if self._consume("["):
            return self._array()
        if self._consume("{"):
            return self._map()
        self._skip()
        for pattern, read in ((_TIMESTAMP, _timestamp), (_DATE, _date), (_TIME, _time)):
            found = pattern.match(self.text, self.position)
            if found is not None and self.text[found.end() : found.end() + 1] in _ENDS:
                self.position = found.end()
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
        """Read up to the closing quote. A backslash escapes a quote but stays in the text, as in Kafka."""
        begin = self.position
        while self.position < len(self.text):
            letter = self.text[self.position]
            self.position += 2 if letter == "\\" else 1
            if letter == '"':
                return self.text[begin : self.position - 1]
        raise _NotParsed

    def _array(self) -> SchemaAndValue:
        values: list[Any] = []
        common = _Common()
        while not self._consume("]"):
            if values and not self._consume(","):
                raise _NotParsed
            if values and self._consume("]"):
                break
            schema, value = self.value(embedded=True)
            values.append(value)
            common.add(schema)
        of = common.schema
        return Schema(SchemaType.ARRAY, value_schema=of), [_aligned(each, of) for each in values]

    def _map(self) -> SchemaAndValue:
        found: dict[Any, Any] = {}
        keys, values = _Common(), _Common()
        while not self._consume("}"):
            if found and not self._consume(","):
                raise _NotParsed
            if found and self._consume("}"):
                break
            schema, key = self.value(embedded=True)
            if key is None or not self._consume(":"):
                raise _NotParsed
            of, value = self.value(embedded=True)
            if not isinstance(key, str | int | float):
                raise _NotParsed
            found[key] = value
            keys.add(schema)
            values.add(of)
        of_keys, of_values = keys.schema, values.schema
        aligned = {_aligned(key, of_keys): _aligned(each, of_values) for key, each in found.items()}
        return Schema(SchemaType.MAP, key_schema=of_keys, value_schema=of_values), aligned


_WIDTHS = [
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
]


class _Common:
    """The common schema of elements: the widest number type, or None if they differ."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._differ = False

    def add(self, other: Schema | None) -> None:
        if self._differ or other is None:
            return
        one = self.schema
        if one is None or one.type is other.type:
            self.schema = other
        elif one.type in _WIDTHS and other.type in _WIDTHS:
            self.schema = one if _WIDTHS.index(one.type) > _WIDTHS.index(other.type) else other
        else:
            self.schema, self._differ = None, True


def _aligned(value: Any, schema: Schema | None) -> Any:
    if schema is None:
        return value
    if value is None:
        raise _NotParsed
    if isinstance(value, int | float) and not isinstance(value, bool):
        if schema.type is SchemaType.FLOAT32:
            return as_float32(value)
        if schema.type is SchemaType.FLOAT64:
            return float(value)
    return value


def parse_number(token: str) -> SchemaAndValue:
    try:
        number = decimal.Decimal(token)
    except decimal.InvalidOperation:
        raise _NotParsed from None
    scale = -int(number.as_tuple().exponent)
    if number.adjusted() < 20 and number == number.to_integral_value():
        value = int(number)
        for schema, bits in _INTEGERS:
            if -(1 << bits) <= value < 1 << bits:
                return schema, value
    if scale != 0:
        double = float(number)
        single = as_float32(double)
        if single - single == 0:
            return schemas.FLOAT32, single
        if double - double == 0:
            return schemas.FLOAT64, double
    return logical.decimal_schema(scale), number


_INTEGERS = ((schemas.INT8, 7), (schemas.INT16, 15), (schemas.INT32, 31), (schemas.INT64, 63))


def _timestamp(found: re.Match[str]) -> SchemaAndValue:
    return logical.TIMESTAMP_SCHEMA, logical.timestamp_from_millis(
        _millis(found[0], "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    )


def _date(found: re.Match[str]) -> SchemaAndValue:
    return logical.DATE_SCHEMA, logical.date_from_days(_millis(found[0], "yyyy-MM-dd") // logical.DAY_MS)


def _time(found: re.Match[str]) -> SchemaAndValue:
    millis = _millis(found[0], "HH:mm:ss.SSS'Z'")
    if millis >= logical.DAY_MS:
        raise _NotParsed
    return logical.TIME_SCHEMA, logical.time_from_millis(millis)


def _millis(text: str, pattern: str) -> int:
    return date_format(pattern).parse(text)
