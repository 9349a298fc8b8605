"""Java class names of values, as in Kafka's messages, and Java's number formatting."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Mapping
from typing import Any

from ottla.connect.data.schema import Schema, SchemaType


class Float32(float):
    """A Java `float` without a schema. It prints with fewer digits than a `double`."""

    __slots__ = ()


def java_class(value: Any, schema: Schema | None = None) -> str:
    """Return the text of `getClass()`: `class java.lang.String`. Whole numbers are Long, as in schemaless JSON."""
    return f"class {java_class_name(value, schema)}"


_BOXES = {
    SchemaType.INT8: "java.lang.Byte",
    SchemaType.INT16: "java.lang.Short",
    SchemaType.INT32: "java.lang.Integer",
    SchemaType.FLOAT32: "java.lang.Float",
}


def java_class_name(value: Any, schema: Schema | None = None) -> str:
    """Return the class name. With a schema, numbers have its type."""
    if isinstance(value, bool):
        return "java.lang.Boolean"
    box = _BOXES.get(schema.type) if schema is not None else None
    if box is not None and isinstance(value, float if box.endswith("Float") else int):
        return box
    if isinstance(value, int):
        return "java.lang.Long" if -(1 << 63) <= value < 1 << 63 else "java.math.BigInteger"
    if isinstance(value, Float32):
        return "java.lang.Float"
    if isinstance(value, float):
        return "java.lang.Double"
    if isinstance(value, str):
        return "java.lang.String"
    if isinstance(value, bytes | bytearray | memoryview):
        return "[B"
    if isinstance(value, Mapping):
        return "java.util.HashMap"
    if isinstance(value, list | tuple):
        return "java.util.ArrayList"
    if isinstance(value, decimal.Decimal):
        return "java.math.BigDecimal"
    if isinstance(value, dt.date | dt.time):
        return "java.util.Date"
    if type(value).__name__ == "Struct":
        return "org.apache.kafka.connect.data.Struct"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def java_double(value: float) -> str:
    """Format like `Double.toString`: Python's shortest digits, with an exponent below 0.001 and from ten million."""
    if 1e-3 <= value < 1e7 or -1e7 < value <= -1e-3:
        return float.__repr__(value)
    return _java_digits(float.__repr__(value), value)


def java_float(value: float) -> str:
    """Format the nearest float like `Float.toString`, with the fewest digits that identify it."""
    exact = float(as_float32(value))
    if exact - exact != 0:  # NaN or infinite
        return _java_digits(repr(exact), exact)
    for digits in range(2, 10):  # Java writes at least two digits, and the nearest two
        shortest = float(f"{exact:.{digits}g}")
        if as_float32(shortest) == exact:
            break
    return java_double(shortest)


def as_float32(value: float) -> Float32:
    try:
        return Float32(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return Float32("inf") if value > 0 else Float32("-inf")


_FLOAT = struct.Struct(">f")
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0.0": "0.0", "-0.0": "-0.0"}


def _java_digits(text: str, value: float) -> str:
    special = _SPECIAL.get(text)
    if special is not None:
        return special
    sign, digits, exponent = decimal.Decimal(text).as_tuple()
    stripped = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + int(exponent) - 1
    if len(stripped) == 1 and float(f"{value:.1e}") == value:  # the smallest numbers have not even one digit
        stripped = f"{abs(value):.1e}"[:3].replace(".", "").rstrip("0") or "0"
    if -3 <= power < 7:
        return text
    return f"{'-' if sign else ''}{stripped[0]}.{stripped[1:] or '0'}E{power}"


def wrapped(value: int, bits: int) -> int:
    """Return the low bits of a number, like a narrowing cast in Java: `(byte) 200` is -56."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def java_text(value: Any, *, single: bool = False) -> str:
    """Format like `String.valueOf`. `single` means that the schema makes the number a `float`."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, Float32) or (single and isinstance(value, float)):
        return java_float(value)
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{java_text(k)}={java_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(java_text, value)) + "]"
    if isinstance(value, dt.datetime):
        return _java_date(value)
    if isinstance(value, dt.date):
        return _java_date(dt.datetime(value.year, value.month, value.day))
    if isinstance(value, dt.time):
        return _java_date(dt.datetime(1970, 1, 1, value.hour, value.minute, value.second))
    return str(value)


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _java_date(moment: dt.datetime) -> str:
    """Format like `java.util.Date.toString` in UTC, the usual zone of servers."""
    clock = f"{moment.hour:02}:{moment.minute:02}:{moment.second:02}"
    return f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:02} {clock} UTC {moment.year}"
