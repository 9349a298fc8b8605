"""Parses JSON into values. Each schema gets one composed reader function, which is then reused.

Mismatches become the same values as in Jackson: text in place of a number is 0.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import json
import re
from collections.abc import Callable
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.java_values import as_float32, wrapped
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.data.validation import validate_value
from ottla.connect.errors import DataError

Reader = Callable[[Any], Any]

_MOST_SHOWN = 60
_FAILED = "Converting byte[] to Kafka Connect data failed due to serialization error: "


def _no_constant(text: str) -> Any:
    raise ValueError(text)


#: Matches texts, which stay unchanged, and leading zeros, which Kafka's reader allows.
_LEADING_ZEROS = re.compile(r'("(?:\\.|[^"\\])*")|(?<![0-9.eE+])(-?)0+(?=[0-9])', re.DOTALL)


class Scanner:
    """`decimals` keeps all digits of fractional numbers."""

    def __init__(self, *, decimals: bool) -> None:
        parse = decimal.Decimal if decimals else None
        self._decoder = json.JSONDecoder(parse_float=parse, parse_constant=_no_constant)
        # Java's BigDecimal, which Jackson parses into, has no signed zero.
        self._careful = json.JSONDecoder(parse_float=parse or _unsigned_zero, parse_constant=_no_constant)

    def __call__(self, data: bytes) -> Any:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise _failed(data, error) from error
        decoder = self._careful if "-0" in text else self._decoder
        try:
            return decoder.decode(text)
        except (ValueError, RecursionError):
            return self._first(text, decoder)

    def whole(self, data: bytes) -> Any:
        """Parse a document. Raises DataError if anything follows the value."""
        try:
            text = data.decode()
            return (self._careful if "-0" in text else self._decoder).decode(text)
        except (ValueError, RecursionError) as error:
            raise _failed(data, error) from error

    @staticmethod
    def _first(text: str, decoder: json.JSONDecoder) -> Any:
        """Parse the first value. Jackson ignores the rest."""
        begin = _LEADING_ZEROS.sub(r"\1\2", text.removeprefix("\ufeff").lstrip(" \t\r\n"))
        if not begin:
            return None
        try:
            value, end = decoder.raw_decode(begin)
        except (ValueError, RecursionError) as error:
            raise _failed(text, error) from error
        after = begin[end : end + 1]
        if isinstance(value, dict | list | str) or after in ("", " ", "\t", "\r", "\n"):
            return value
        if (value is None or isinstance(value, bool)) and not (after.isalnum() or after in "_$"):
            return value
        raise _failed(text, f"{after!r} after a number")


def _failed(data: str | bytes, reason: object) -> DataError:
    """Kafka's message, with the reason that Kafka gives in the cause only."""
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    shown = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
    return DataError(f"{_FAILED}{shown!r} is not JSON ({reason}).")


def _unsigned_zero(text: str) -> float:
    return float(text) + 0.0


scan = Scanner(decimals=False)
scan_decimals = Scanner(decimals=True)


def node_type(node: Any) -> str:
    if isinstance(node, bool):
        return "BOOLEAN"
    if isinstance(node, int | float | decimal.Decimal):
        return "NUMBER"
    if isinstance(node, str):
        return "STRING"
    if isinstance(node, dict):
        return "OBJECT"
    return "NULL" if node is None else "ARRAY"


_MANY_DIGITS = re.compile(rb"[0-9]{19}")


def read_plain(data: bytes) -> Any:
    node = scan(data)
    return node if _MANY_DIGITS.search(data) is None else read_schemaless(node)


def read_schemaless(node: Any) -> Any:
    """Convert JSON to a schemaless value. Numbers beyond 64 bits are truncated, as in Java."""
    if isinstance(node, int):
        return node if -(1 << 63) <= node < 1 << 63 else wrapped(node, 64)
    if isinstance(node, list):
        return [read_schemaless(each) for each in node]
    if isinstance(node, dict):
        return {key: read_schemaless(each) for key, each in node.items()}
    return float(node) if isinstance(node, decimal.Decimal) else node


def _may_not_fit(schema: Schema) -> bool:
    """Return True if the parsed value may not fit.

    A non-text becomes null, which is invalid for required fields and elements.
    """
    return not schema.optional or not schema.type.is_primitive


class Readers:
    """Readers cached by schema, at most `cache_size` of them."""

    def __init__(self, *, replace_null: bool, cache_size: int) -> None:
        self._replace_null = replace_null
        self._cache_size = cache_size
        self._kept: dict[Schema, Reader] = {}

    def of(self, schema: Schema | None) -> Reader:
        if schema is None:
            return read_schemaless
        found = self._kept.get(schema)
        if found is None:
            found = self._composed(schema)
            if len(self._kept) >= self._cache_size:
                self._kept.clear()
            self._kept[schema] = found
        return found

    def _composed(self, schema: Schema) -> Reader:
        read = _logical(schema) or self._plain(schema)
        default, optional, kind = schema.default, schema.optional, schema.type.name
        replaces = default is not None and self._replace_null

        def read_or_null(node: Any) -> Any:
            if node is not None:
                return read(node)
            if replaces:
                return default
            if optional:
                return None
            raise DataError(f"Invalid null value for required {kind} field")

        return read_or_null

    def _plain(self, schema: Schema) -> Reader:
        kind = schema.type
        if kind is SchemaType.STRUCT:
            return self._struct(schema)
        if kind is SchemaType.ARRAY:
            return self._array(schema)
        if kind is SchemaType.MAP:
            return self._map(schema)
        return _PRIMITIVES[kind]

    def _struct(self, schema: Schema) -> Reader:
        fields = [
            (each.name, each.schema, self._composed(each.schema), _may_not_fit(each.schema))
            for each in schema.fields
        ]

        def read(node: Any) -> Any:
            if not isinstance(node, dict):
                raise DataError(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
            values = []
            for name, field, read_field, may_not_fit in fields:
                value = read_field(node.get(name))
                if may_not_fit and (value is None or not field.type.is_primitive):
                    validate_value(field, value, f'field: "{name}"')
                values.append(value)
            return Struct.of(schema, values)

        return read

    def _array(self, schema: Schema) -> Reader:
        assert schema.value_schema is not None
        element = self._composed(schema.value_schema)

        def read(node: Any) -> Any:
            if isinstance(node, dict):
                node = list(node.values())
            return [element(each) for each in node] if isinstance(node, list) else []

        return read

    def _map(self, schema: Schema) -> Reader:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        read_key, read_value = self._composed(schema.key_schema), self._composed(schema.value_schema)
        if schema.key_schema.type is SchemaType.STRING:

            def read(node: Any) -> Any:
                if not isinstance(node, dict):
                    raise DataError(
                        "Maps with string fields should be encoded as JSON objects, "
                        f"but found {node_type(node)}"
                    )
                return {key: read_value(each) for key, each in node.items()}

            return read

        def read_pairs(node: Any) -> Any:
            if not isinstance(node, list):
                raise DataError(
                    "Maps with non-string fields should be encoded as JSON array of tuples, "
                    f"but found {node_type(node)}"
                )
            found = {}
            for entry in node:
                if not isinstance(entry, list):
                    raise DataError(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
                if len(entry) != 2:
                    raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
                key = read_key(entry[0])
                try:
                    found[key] = read_value(entry[1])
                except TypeError:
                    raise DataError(
                        "A map whose keys are structs, arrays or maps is not supported."
                    ) from None
            return found

        return read_pairs


def _whole(bits: int) -> Reader:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(node: Any) -> int:
        if node.__class__ is int:
            return node if least <= node <= most else wrapped(node, bits)
        return wrapped(_truncated(node), bits) if isinstance(node, decimal.Decimal) else 0

    return read


def _truncated(number: decimal.Decimal) -> int:
    """Truncate to an integer. A number with 64 or more trailing decimal zeros has 64 trailing zero bits."""
    exponent = number.as_tuple().exponent
    return 0 if isinstance(exponent, int) and exponent >= 64 else int(number)


def _double(node: Any) -> float:
    if isinstance(node, decimal.Decimal):
        return float(node) + 0.0  # Java's BigDecimal has no signed zero
    if isinstance(node, int) and not isinstance(node, bool):
        try:
            return float(node)
        except OverflowError:
            return float("inf") if node > 0 else float("-inf")
    return 0.0


def _float(node: Any) -> float:
    return as_float32(_double(node))


def _bytes(node: Any) -> bytes | None:
    if not isinstance(node, str):
        return None
    try:
        return base64.b64decode(node, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("Invalid bytes field") from None


_PRIMITIVES: dict[SchemaType, Reader] = {
    SchemaType.INT8: _whole(8),
    SchemaType.INT16: _whole(16),
    SchemaType.INT32: _whole(32),
    SchemaType.INT64: _whole(64),
    SchemaType.FLOAT32: _float,
    SchemaType.FLOAT64: _double,
    SchemaType.BOOLEAN: lambda node: node is True,
    SchemaType.STRING: lambda node: node if node.__class__ is str else None,
    SchemaType.BYTES: _bytes,
}


def _logical(schema: Schema) -> Reader | None:
    if schema.name == logical.DECIMAL:
        return lambda node: _decimal(schema, node)
    if schema.name == logical.DATE:
        return lambda node: logical.date_from_days(_small(node, "Date"))
    if schema.name == logical.TIME:
        return lambda node: logical.time_from_millis(_small(node, "Time"))
    if schema.name == logical.TIMESTAMP:
        return lambda node: logical.timestamp_from_millis(_integral(node))
    return None


def _decimal(schema: Schema, node: Any) -> decimal.Decimal:
    if isinstance(node, str):
        try:
            return logical.decimal_from_bytes(schema, _bytes(node) or b"")
        except DataError:
            raise DataError("Invalid bytes for Decimal field") from None
    if isinstance(node, int | decimal.Decimal) and not isinstance(node, bool):
        return decimal.Decimal(node)
    raise DataError(
        "Invalid type for Decimal, underlying representation should be numeric or bytes "
        f"but was {node_type(node)}"
    )


def _small(node: Any, kind: str) -> int:
    if isinstance(node, int) and not isinstance(node, bool) and -(1 << 31) <= node < 1 << 31:
        return node
    raise DataError(
        f"Invalid type for {kind}, underlying representation should be integer but was {node_type(node)}"
    )


def _integral(node: Any) -> int:
    if isinstance(node, int) and not isinstance(node, bool):
        return wrapped(node, 64)
    raise DataError(
        f"Invalid type for Timestamp, underlying representation should be integral but was {node_type(node)}"
    )
