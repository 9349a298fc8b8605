"""Canonical bytes of record keys: equal if and only if the key columns are equal.

The raw bytes are not enough, because JSON and delimited text can spell the same value differently.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, time
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from ottla.sql.planning.pseudo_times import milliseconds
from ottla.sql.pull.json_values import NeedsSpark, Unreadable, json_parser
from ottla.sql.sources import Source
from ottla.sql.sql_types import SqlType

_INTEGERS = {"INTEGER": 31, "BIGINT": 63}
_PLAIN_STRING = re.compile(rb'"([^"\\\x00-\x1f\x80-\xff]*)"').fullmatch
_PLAIN_INTEGER = re.compile(rb"-?(0|[1-9][0-9]{0,17})").fullmatch
_DELIMITED_INTEGER = re.compile(r"-?[0-9]{1,18}").fullmatch
_DELIMITED_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?").fullmatch
_KAFKA_NUMBERS = {"INTEGER": ">i", "BIGINT": ">q", "DOUBLE": ">d"}
_TYPES = {
    "KAFKA": ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES"),
    "JSON": ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "DECIMAL", "DATE", "TIME", "TIMESTAMP"),
    "DELIMITED": (
        "BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "DECIMAL", "DATE", "TIME", "TIMESTAMP",
    ),
}  # fmt: skip


class Odd(Exception):
    """Spark may read this key differently, so the table must be scanned."""


class Parts(NamedTuple):
    key: bytes
    start: int | None = None  # start of the window in milliseconds
    end: int | None = None


def is_indexable(source: Source) -> bool:
    allowed = _TYPES.get(source.key_format, ())
    return (
        source.kind == "TABLE"
        and bool(source.keys)
        and not source.headers
        and all(column.type.name in allowed for column in source.keys)
    )


class KeyCodec:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._columns = source.keys
        self._decode: Callable[[bytes], tuple[Any, ...]] = {
            "KAFKA": self._kafka,
            "JSON": self._json,
            "DELIMITED": self._delimited,
        }[source.key_format]
        self._parse: Callable[[bytes], tuple[Any, ...]] | None = None

    def split(self, raw: bytes) -> Parts | None:
        """Split the window from the key, or return None if the key is too short."""
        source = self._source
        if source.window is None:
            return Parts(raw)
        tail = 16 if source.window == "SESSION" else 8
        if len(raw) < tail:
            return None
        [start] = struct.unpack(">q", raw[-8:])
        if source.window == "SESSION":
            return Parts(raw[:-16], start, struct.unpack(">q", raw[-16:-8])[0])
        return Parts(raw[:-8], start, start + (source.window_size_ms or 0))

    def values(self, key: bytes) -> tuple[Any, ...] | None:
        """Return the columns of a key with times as numbers, or None if the key is unreadable."""
        try:
            return self._decode(key)
        except Unreadable:
            return None
        except NeedsSpark:
            raise Odd from None

    def canonical(self, key: bytes) -> bytes | None:
        values = self.values(key)
        return None if values is None else canonical(values)

    # Formats

    def _kafka(self, key: bytes) -> tuple[Any, ...]:
        kind = self._columns[0].type.name
        form = _KAFKA_NUMBERS.get(kind)
        if form is not None:
            if len(key) != struct.calcsize(form):
                raise Unreadable
            return struct.unpack(form, key)
        return (key,) if kind == "BYTES" else (_text(key),)

    def _json(self, key: bytes) -> tuple[Any, ...]:
        single = len(self._columns) == 1
        if single:
            kind = self._columns[0].type.name
            if kind == "STRING" and (found := _PLAIN_STRING(key)):
                return (found[1].decode(),)
            if kind in _INTEGERS and _PLAIN_INTEGER(key) and abs(int(key)) < 2 ** _INTEGERS[kind]:
                return (int(key),)
        if self._parse is None:
            self._parse = json_parser(self._columns, alone=single)
        return tuple(
            normal(value, column.type) for value, column in zip(self._parse(key), self._columns, strict=True)
        )

    def _delimited(self, key: bytes) -> tuple[Any, ...]:
        parts = delimited(_text(key), self._source.key_delimiter, len(self._columns))
        return tuple(
            delimited_value(part, column.type) for part, column in zip(parts, self._columns, strict=True)
        )


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise Odd from None


def canonical(values: Sequence[Any]) -> bytes:
    return repr(tuple(values)).encode()


# Unambiguous delimited text


def delimited(text: str, delimiter: str, count: int) -> list[str]:
    if any(letter in text for letter in '"\\\n\r') or text.startswith("#"):
        raise Odd
    parts = text.split(delimiter)
    if len(parts) != count or any(not part or part != part.strip() for part in parts):
        raise Odd
    return parts


def delimited_value(text: str, kind: SqlType) -> Any:
    name = kind.name
    if name == "STRING":
        return text
    if name == "BOOLEAN" and text in ("true", "false"):
        return text == "true"
    if name in (*_INTEGERS, "DATE", "TIME", "TIMESTAMP") and _DELIMITED_INTEGER(text):
        value = int(text)
        if name != "INTEGER" or -(2**31) <= value < 2**31:
            return value
    if name == "DOUBLE" and _DELIMITED_NUMBER(text):
        return float(text) + 0.0
    if name == "DECIMAL" and _DELIMITED_NUMBER(text):
        found = _decimal(text, kind)
        if found is not None:
            return found
    raise Odd


def _decimal(text: str, kind: SqlType) -> Decimal | None:
    try:
        value = Decimal(text)
        fitting = value.quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        return None
    digits = len(fitting.as_tuple().digits)
    return fitting if fitting == value and digits <= kind.precision else None


def normal(value: Any, kind: SqlType) -> Any:
    """Normalise a JSON value, so that equal values have equal encodings."""
    if kind.name == "DOUBLE" and value is not None:
        return float(value) + 0.0
    return value


# Literals in statements


def literal(value: Any, kind: SqlType) -> Any:
    """Return the key value equal to the literal, or None if only Spark can tell."""
    name = kind.name
    if isinstance(value, bool):
        return value if name == "BOOLEAN" else None
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value()
        if name in _INTEGERS:
            return int(value) if whole and abs(value) < 2 ** _INTEGERS[name] else None
        if name == "DOUBLE":
            return float(value) + 0.0
        return _decimal(str(value), kind) if name == "DECIMAL" else None
    if name == "STRING":
        return value
    try:
        if name == "DATE":
            return (date.fromisoformat(value) - date(1970, 1, 1)).days
        if name == "TIME":
            found = time.fromisoformat(value)
            return ((found.hour * 60 + found.minute) * 60 + found.second) * 1000 + found.microsecond // 1000
        if name == "TIMESTAMP":
            return milliseconds(value)
    except ValueError:
        return None
    return None
