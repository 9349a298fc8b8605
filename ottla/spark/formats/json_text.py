"""JSON values requested as text: written again like Spark, without blanks."""

from __future__ import annotations

import json
import re
from typing import Any

_SCIENTIFIC = re.compile(r"(-?)(\d)(?:\.(\d+))?e([+-]\d+)")


class _Written(str):
    """Text that is written without quotes."""


class _Object(list[tuple[str, Any]]):
    """Object with all its members, including duplicate names."""


def json_text(value: Any) -> str:
    if isinstance(value, _Written):
        return value
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_quoted(name)}:{json_text(each)}" for name, each in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    return "null" if value is None else str(value).lower()


def java_double(text: str) -> str:
    """Format a number like Java: 1.5, 1.0E10."""
    value = float(text)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{value!r}" if "e" not in repr(value) else f"{value:f}"
    found = _SCIENTIFIC.fullmatch(f"{value:.0e}" if value == float(f"{value:.0e}") else _shortest(value))
    if found is None:  # NaN or infinity
        return "NaN" if value != value else "-Infinity" if value < 0 else "Infinity"
    sign, first, rest, exponent = found.groups()
    return f"{sign}{first}.{rest or '0'}E{int(exponent)}"


def _shortest(value: float) -> str:
    """Format with as many digits as `repr`, but with an exponent."""
    digits = len(repr(abs(value)).split("e")[0].replace(".", "").strip("0"))
    return f"{value:.{max(digits - 1, 0)}e}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


#: Reads any value for `json_text`.
any_value: Any = json.JSONDecoder(
    parse_int=_Written,
    parse_float=lambda text: _Written(java_double(text)),
    parse_constant=lambda text: _Written(f'"{text}"'),
    object_pairs_hook=_Object,
).scan_once  # type: ignore[attr-defined]
