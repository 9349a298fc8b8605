"""Writes values as JSON. Each schema gets one composed writer function, which is then reused."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json.encoder
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32, java_class, java_double, java_float
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError

Writer = Callable[[Any], str]

quoted: Callable[[str], str] = json.encoder.encode_basestring

_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")
_UNICODE = re.compile(r"\\\\|\\u00[01][0-9a-f]")


def to_bytes(text: str) -> bytes:
    """Encode like Jackson: uppercase digits in \\u001F, and surrogate pairs for characters beyond 16 bits."""
    if "\\u00" in text:
        text = _UNICODE.sub(lambda found: found[0][:2] + found[0][2:].upper(), text)
    if not text.isascii():
        text = _BEYOND_16_BITS.sub(_surrogates, text)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"Converting Kafka Connect data to byte[] failed due to serialization error: {error}."
        ) from None


def _surrogates(found: re.Match[str]) -> str:
    code = ord(found[0]) - 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


class Writers:
    """Writers cached by schema, at most `cache_size` of them. The key None is for schemaless values."""

    def __init__(self, *, numeric_decimals: bool, replace_null: bool, cache_size: int) -> None:
        self._numeric_decimals = numeric_decimals
        self._replace_null = replace_null
        self._cache_size = cache_size
        self._kept: dict[Schema, Writer] = {}

    def write_all(self, schema: Schema, values: Sequence[Any]) -> Iterable[str]:
        """Write all values. Structs are written column by column, which is faster."""
        write = self.of(schema)
        if schema.plain_type is str and set(map(type, values)) == {str}:
            return map(quoted, values)
        if not schema.fields or any(
            each.__class__ is not Struct or each.schema is not schema for each in values
        ):
            return map(write, values)
        columns = zip(*[each.values for each in values], strict=True)
        fields = [
            self.write_all(each.schema, column) for each, column in zip(schema.fields, columns, strict=True)
        ]
        names = (quoted(each.name).replace("%", "%%") for each in schema.fields)
        template = "{" + ",".join([f"{name}:%s" for name in names]) + "}"
        return map(template.__mod__, zip(*fields, strict=True))

    def of(self, schema: Schema | None) -> Writer:
        if schema is None:
            return write_schemaless
        found = self._kept.get(schema)
        if found is None:
            found = self._composed(schema)
            if len(self._kept) >= self._cache_size:
                self._kept.clear()
            self._kept[schema] = found
        return found

    def _composed(self, schema: Schema) -> Writer:
        write = self._logical(schema) or self._plain(schema)
        or_null = self._or_null(schema, write)
        if write is not _write_string:
            return or_null

        def write_string(value: Any) -> str:
            return quoted(value) if value.__class__ is str else or_null(value)

        return write_string

    def _or_null(self, schema: Schema, write: Writer) -> Writer:
        default = schema.default
        replaces = default is not None and self._replace_null
        optional = schema.optional

        def write_or_null(value: Any) -> str:
            if value is not None:
                return write(value)
            if replaces:
                return write(default)
            if optional:
                return "null"
            raise DataError(
                "Conversion error: null value for field that is required and has no default value"
            )

        return write_or_null

    def _logical(self, schema: Schema) -> Writer | None:
        if schema.name == logical.DECIMAL:
            return self._decimal(schema)
        if schema.name == logical.DATE:
            return lambda value: str(logical.date_to_days(_moment(value, "Date", schema, "INT32")))
        if schema.name == logical.TIME:
            return lambda value: str(logical.time_to_millis(_moment(value, "Time", schema, "INT32")))
        if schema.name == logical.TIMESTAMP:
            return lambda value: str(logical.millis_of(_moment(value, "Timestamp", schema, "INT64")))
        return None

    def _decimal(self, schema: Schema) -> Writer:
        numeric = self._numeric_decimals

        def write(value: Any) -> str:
            if not isinstance(value, decimal.Decimal):
                raise DataError(f"Invalid type for Decimal, expected BigDecimal but was {java_class(value)}")
            if numeric:
                return str(value)
            return _base64(logical.decimal_to_bytes(schema, value))

        return write

    def _plain(self, schema: Schema) -> Writer:
        kind = schema.type
        if kind is SchemaType.STRUCT:
            return self._struct(schema)
        if kind is SchemaType.ARRAY:
            return self._array(schema)
        if kind is SchemaType.MAP:
            return self._map(schema)
        if kind in _WHOLE:
            return _whole(kind)
        return {
            SchemaType.STRING: _write_string,
            SchemaType.BOOLEAN: _write_boolean,
            SchemaType.FLOAT64: _write_double,
            SchemaType.FLOAT32: _write_float,
            SchemaType.BYTES: _write_bytes,
        }[kind]

    def _struct(self, schema: Schema) -> Writer:
        fields = [(f"{quoted(each.name)}:", self._composed(each.schema)) for each in schema.fields]

        def write(value: Any) -> str:
            if value.__class__ is not Struct:
                raise _unfit("STRUCT", value)
            if value.schema is not schema and value.schema != schema:
                raise DataError("Mismatching schema.")
            written = [
                name + write_field(each)
                for (name, write_field), each in zip(fields, value.values, strict=True)
            ]
            return "{" + ",".join(written) + "}"

        return write

    def _array(self, schema: Schema) -> Writer:
        assert schema.value_schema is not None
        element = self._composed(schema.value_schema)

        def write(value: Any) -> str:
            if not isinstance(value, list | tuple):
                raise _unfit("ARRAY", value)
            return "[" + ",".join([element(each) for each in value]) + "]"

        return write

    def _map(self, schema: Schema) -> Writer:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        key_writer, value_writer = self._composed(schema.key_schema), self._composed(schema.value_schema)
        as_object = schema.key_schema.type is SchemaType.STRING

        def write(value: Any) -> str:
            if not isinstance(value, Mapping):
                raise _unfit("MAP", value)
            if as_object:
                entries = [f"{_key(key_writer(key))}:{value_writer(each)}" for key, each in value.items()]
                return "{" + ",".join(entries) + "}"
            pairs = [f"[{key_writer(key)},{value_writer(each)}]" for key, each in value.items()]
            return "[" + ",".join(pairs) + "]"

        return write


def _key(written: str) -> str:
    return '"null"' if written == "null" else written


def _moment(value: Any, kind: str, schema: Schema, schema_type: str) -> Any:
    if not isinstance(value, dt.date | dt.time):
        raise DataError(f"Invalid type for {kind}, expected Date but was {java_class(value)}")
    return value


def _unfit(kind: str, value: Any) -> DataError:
    return DataError(f"Invalid type for {kind}: {java_class(value)}")


_WHOLE = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}


def _whole(kind: SchemaType) -> Writer:
    bits = _WHOLE[kind]
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def write(value: Any) -> str:
        if isinstance(value, int) and least <= value <= most and value.__class__ is not bool:
            return int.__repr__(value)
        raise _unfit(kind.name, value)

    return write


def _write_string(value: Any) -> str:
    try:
        return quoted(value)
    except TypeError:
        raise _unfit("STRING", value) from None


def _write_boolean(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    raise _unfit("BOOLEAN", value)


def _write_double(value: Any) -> str:
    if not isinstance(value, float):
        raise _unfit("FLOAT64", value)
    return _number(java_double(value), value)


def _write_float(value: Any) -> str:
    if not isinstance(value, float):
        raise _unfit("FLOAT32", value)
    return _number(java_float(value), value)


def _number(text: str, value: float) -> str:
    """Quote NaN and infinities."""
    return f'"{text}"' if value - value != 0 else text


def _write_bytes(value: Any) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise DataError(f"Invalid type for bytes type: {java_class(value)}")
    return _base64(bytes(value))


def _base64(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def write_schemaless(value: Any) -> str:
    kind = value.__class__
    if kind is str:
        return quoted(value)
    if kind is int:
        if -(1 << 63) <= value < 1 << 63:
            return int.__repr__(value)
    elif value is None:
        return "null"
    elif value is True:
        return "true"
    elif value is False:
        return "false"
    elif kind is float:
        if 1e-3 <= value < 1e7:
            return float.__repr__(value)
        return _number(java_double(value), value)
    elif kind is dict:
        try:
            return (
                "{"
                + ",".join([f"{quoted(key)}:{write_schemaless(each)}" for key, each in value.items()])
                + "}"
            )
        except TypeError:  # keys other than texts
            return _pairs(value)
    elif kind is list or kind is tuple:
        return "[" + ",".join([write_schemaless(each) for each in value]) + "]"
    return _write_other(value)


def _pairs(value: Mapping[Any, Any]) -> str:
    if all(isinstance(key, str) for key in value):
        raise DataError(f"Couldn't convert {value} to JSON.")
    pairs = [f"[{write_schemaless(key)},{write_schemaless(each)}]" for key, each in value.items()]
    return "[" + ",".join(pairs) + "]"


def _write_other(value: Any) -> str:
    if isinstance(value, Float32):
        return _number(java_float(value), value)
    if isinstance(value, float):
        return _number(java_double(value), value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _write_bytes(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return int.__repr__(value)
    if isinstance(value, Mapping):
        return write_schemaless(dict(value))
    if isinstance(value, list | tuple):
        return write_schemaless(list(value))
    if isinstance(value, Struct):
        raise DataError("Mismatching schema.")
    raise DataError(f"Java class {java_class(value)} does not have corresponding schema type.")
