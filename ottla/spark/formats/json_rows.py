"""Row parser from one JSON text to a value of a Spark type, like `from_json`, with an error for bad texts.

Slow and exact: used for rows that Arrow's reader refuses, and for types that it does not support.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from json import JSONDecodeError, JSONDecoder
from typing import Any, NamedTuple

from ottla.spark.formats.json_text import any_value, json_text
from ottla.spark.formats.json_times import days, microseconds

#: Reads the value at a position. Returns it with the position after it.
Reader = Callable[[str, int], tuple[Any, int]]
#: Creates the error for the value at a position.
Misfit = Callable[[str, int], "BadJson"]

_decoder: Any = JSONDecoder(parse_int=str, parse_float=str)
_any_value = _decoder.scan_once
_text = _decoder.parse_string
_blank = re.compile(r"[ \t\n\r]*").match
_number = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?").match
_decimal_text = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?").fullmatch
_whole = re.compile(r"[-+]?[0-9]{1,20}").fullmatch
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
_NOT_NUMBERS_IN_TEXT = ("NaN", "Infinity", "+Infinity", "INF", "+INF", "-Infinity", "-INF")
_EXACT = Context(prec=80, rounding=ROUND_HALF_UP)
_MOST_SHOWN = 40


class BadJson(Exception):
    """The text is not JSON, or does not have the type. The message says why."""


class Reading(NamedTuple):
    """`lax` accepts more than `from_json`, as ksqlDB does.

    Numbers may be in strings, integers may have fractions, and a name in any case matches an upper-case field.
    """

    zone: tzinfo
    lax: bool = False


def row_parser(kind: Any, zone: tzinfo, *, lax: bool = False) -> Callable[[bytes], Any]:
    """Return a parser for a whole text that raises BadJson."""
    read = _reader(kind, Reading(zone, lax), "")

    def parse(data: bytes) -> Any:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise BadJson(f"not UTF-8 at byte {error.start}") from None
        start = _next(text, 0)
        if start == len(text):
            raise BadJson("empty")
        try:
            value, end = read(text, start)
        except JSONDecodeError as error:
            raise BadJson(f"not JSON at character {error.pos}") from None
        except RecursionError:
            raise BadJson("nested too deeply") from None
        if value is None:
            raise BadJson("null")
        end = _next(text, end)
        if end != len(text):
            raise BadJson(f"more after its end, at character {end}")
        return value

    return parse


def _reader(kind: Any, how: Reading, where: str) -> Reader:
    read = _reader_of_some(kind, how, where)

    def read_or_null(text: str, at: int) -> tuple[Any, int]:
        if text.startswith("null", at):
            return None, at + 4
        return read(text, at)

    return read_or_null


def _reader_of_some(kind: Any, how: Reading, where: str) -> Reader:
    name = kind.typeName()
    if name == "struct":
        return _struct(kind, how, where)
    if name == "array":
        return _array(kind, how, where)
    if name == "map":
        return _map(kind, how, where)
    if name == "string":
        return _string
    if name == "boolean":
        return _boolean(where)
    if name in _BITS:
        return (_lax_integer if how.lax else _integer)(_BITS[name], kind.simpleString(), where)
    if name == "decimal":
        return _decimal(kind, where)
    if name in ("float", "double"):
        return _lax_float(where, name) if how.lax else _float(where, name)
    return _of_text(kind, how, where)


# Nested


def _struct(kind: Any, how: Reading, where: str) -> Reader:
    readers = {
        field.name: _reader(field.dataType, how, f"{where}.{field.name}".removeprefix("."))
        for field in kind.fields
    }
    misfit = _misfit("a JSON object", where)

    def read(text: str, at: int) -> tuple[Any, int]:
        row: dict[str, Any] = dict.fromkeys(readers)

        def member(name: str, at: int) -> int:
            reader = readers.get(name)
            if reader is None and how.lax:
                name = name.upper()
                reader = readers.get(name)
            if reader is None:
                return _skip(text, at)
            row[name], end = reader(text, at)
            return end

        return row, _members(text, at, member, misfit)

    return read


def _map(kind: Any, how: Reading, where: str) -> Reader:
    value = _reader(kind.valueType, how, f"{where}{{}}")
    misfit = _misfit("a JSON object", where)

    def read(text: str, at: int) -> tuple[Any, int]:
        items: list[tuple[str, Any]] = []

        def member(name: str, at: int) -> int:
            found, end = value(text, at)
            items.append((name, found))
            return end

        return items, _members(text, at, member, misfit)

    return read


def _members(text: str, at: int, member: Callable[[str, int], int], misfit: Misfit) -> int:
    """Walk over an object. `member` reads a value and returns the position after it."""
    if not text.startswith("{", at):
        raise misfit(text, at)
    at = _next(text, at + 1)
    if text.startswith("}", at):
        return at + 1
    while True:
        if not text.startswith('"', at):
            raise JSONDecodeError("a name is missing", text, at)
        name, at = _text(text, at + 1, True)
        at = _next(text, at)
        if not text.startswith(":", at):
            raise JSONDecodeError("a colon is missing", text, at)
        at = _next(text, member(_readable(name), _next(text, at + 1)))
        if text.startswith("}", at):
            return at + 1
        if not text.startswith(",", at):
            raise JSONDecodeError("a comma is missing", text, at)
        at = _next(text, at + 1)


def _array(kind: Any, how: Reading, where: str) -> Reader:
    element = _reader(kind.elementType, how, f"{where}[]")
    misfit = _misfit("a JSON array", where)

    def read(text: str, at: int) -> tuple[Any, int]:
        if not text.startswith("[", at):
            raise misfit(text, at)
        found: list[Any] = []
        at = _next(text, at + 1)
        if text.startswith("]", at):
            return found, at + 1
        while True:
            value, at = element(text, at)
            found.append(value)
            at = _next(text, at)
            if text.startswith("]", at):
                return found, at + 1
            if not text.startswith(",", at):
                raise JSONDecodeError("a comma is missing", text, at)
            at = _next(text, at + 1)

    return read


# Simple


def _string(text: str, at: int) -> tuple[Any, int]:
    """Read a string. Any other value is returned as JSON text."""
    if text.startswith('"', at):
        value, end = _text(text, at + 1, True)
        return _readable(value), end
    try:
        value, end = any_value(text, at)
    except StopIteration as stop:
        raise JSONDecodeError("a value is missing", text, stop.value) from None
    return json_text(value), end


def _boolean(where: str) -> Reader:
    misfit = _misfit("boolean", where)

    def read(text: str, at: int) -> tuple[Any, int]:
        if text.startswith("true", at):
            return True, at + 4
        if text.startswith("false", at):
            return False, at + 5
        raise misfit(text, at)

    return read


def _integer(bits: int, name: str, where: str) -> Reader:
    misfit = _misfit(name, where)
    most = 1 << (bits - 1)

    def read(text: str, at: int) -> tuple[Any, int]:
        found = _number(text, at)
        if found is None or found[1] or found[2] or len(found[0]) > 20:
            raise misfit(text, at)
        value = int(found[0])
        if not -most <= value < most:
            raise misfit(text, at)
        return value, found.end()

    return read


def _lax_integer(bits: int, name: str, where: str) -> Reader:
    misfit = _misfit(name, where)
    exact = _integer(bits, name, where)
    most = 1 << (bits - 1)

    def read(text: str, at: int) -> tuple[Any, int]:
        if text.startswith('"', at):
            digits, end = _text(text, at + 1, True)
            whole = _whole(digits)
            value = int(digits) if whole is not None else most
        else:
            found = _number(text, at)
            if found is None or not (found[1] or found[2]):
                return exact(text, at)
            value, end = int(Decimal(found[0])), found.end()
        if not -most <= value < most:
            raise misfit(text, at)
        return value, end

    return read


def _lax_float(where: str, name: str) -> Reader:
    exact = _float(where, name)

    def read(text: str, at: int) -> tuple[Any, int]:
        if text.startswith('"', at):
            digits, end = _text(text, at + 1, True)
            if _decimal_text(digits.strip()) is not None:
                return float(digits), end
        return exact(text, at)

    return read


def _float(where: str, name: str) -> Reader:
    misfit = _misfit(name, where)

    def read(text: str, at: int) -> tuple[Any, int]:
        found = _number(text, at)
        if found is not None:
            return float(found[0]), found.end()
        for each in _NOT_NUMBERS:
            if text.startswith(each, at):
                return float(each), at + len(each)
        if text.startswith('"', at):
            value, end = _text(text, at + 1, True)
            if value in _NOT_NUMBERS_IN_TEXT:
                return float(value), end
        raise misfit(text, at)

    return read


def _decimal(kind: Any, where: str) -> Reader:
    misfit = _misfit(kind.simpleString(), where)
    unit = Decimal(1).scaleb(-kind.scale)

    def read(text: str, at: int) -> tuple[Any, int]:
        found = _number(text, at)
        if found is not None:
            digits, end = found[0], found.end()
        elif text.startswith('"', at):
            digits, end = _text(text, at + 1, True)
            digits = digits.replace(",", "")
            if _decimal_text(digits) is None:
                raise misfit(text, at)
        else:
            raise misfit(text, at)
        try:
            value = Decimal(digits).quantize(unit, context=_EXACT)
        except InvalidOperation:
            raise misfit(text, at) from None
        if not value.is_finite() or len(value.as_tuple().digits) > kind.precision:
            raise misfit(text, at)
        return value, end

    return read


def _of_text(kind: Any, how: Reading, where: str) -> Reader:
    name = kind.typeName()
    misfit = _misfit(kind.simpleString(), where)

    # A timestamp may be a number of seconds. As microseconds, 44 bits of them still fit 64 bits.
    read_seconds = _integer(44, "timestamp", where)

    def convert(value: str) -> Any:
        if name == "date":
            return days(value)
        if name == "binary":
            return base64.b64decode(value, validate=True)
        return microseconds(value, None if name == "timestamp_ntz" else how.zone)

    def read(text: str, at: int) -> tuple[Any, int]:
        if not text.startswith('"', at):
            if name != "timestamp":
                raise misfit(text, at)
            seconds, end = read_seconds(text, at)
            return seconds * 1_000_000, end
        value, end = _text(text, at + 1, True)
        try:
            return convert(value), end
        except (ValueError, OverflowError, binascii.Error):
            raise misfit(text, at) from None

    return read


# Pieces


def _next(text: str, at: int) -> int:
    return _blank(text, at).end()  # type: ignore[union-attr]


def _skip(text: str, at: int) -> int:
    try:
        return int(_any_value(text, at)[1])
    except StopIteration as stop:
        raise JSONDecodeError("a value is missing", text, stop.value) from None


def _readable(text: str) -> str:
    """Replace lone surrogates, which only escapes can write, by question marks, as in Java."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _misfit(expected: str, where: str) -> Misfit:
    def error(text: str, at: int) -> BadJson:
        try:
            found = text[at : _skip(text, at)]
        except JSONDecodeError as broken:
            return BadJson(f"not JSON at character {broken.pos}")
        shown = found if len(found) <= _MOST_SHOWN else found[:_MOST_SHOWN] + "…"
        return BadJson(f"{where + ' is' if where else ''} {shown}, not {expected}".lstrip())

    return error
