"""JSON as Jackson prints it, which Kafka's JsonConverter uses: the same bytes for the same value."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def to_json(value: Any) -> str:
    """Strings, numbers, booleans, None, and lists and dicts of them."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(to_json, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(str(key))}:{to_json(each)}" for key, each in value.items()) + "}"
    raise TypeError(f"{type(value).__name__} cannot be a part of a partition or an offset of a source.")


def _string(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)
    if "\\u" not in escaped:
        return escaped
    # Jackson has capital letters in the numbers of control characters.
    parts = escaped.split("\\\\")
    return "\\\\".join(_capitals(part) for part in parts)


def _capitals(text: str) -> str:
    first, *rest = text.split("\\u")
    return first + "".join(f"\\u{each[:4].upper()}{each[4:]}" for each in rest)


def _double(value: float) -> str:
    """As Double.toString, with NaN and the infinities in quotes."""
    if value != value:
        return '"NaN"'
    if value in (float("inf"), float("-inf")):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + int(exponent) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"
