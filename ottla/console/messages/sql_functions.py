"""Functions and comparisons of SQL expressions on messages: NULL in, NULL out, as in ksqlDB.

All of them have bounded time and memory, so that a visitor's expression cannot cause harm.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

_MOST_TEXT = 100_000


def kind_of(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, (int, float)) else type(value)


def comparing(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool | None]:
    """Compare values. Different kinds, such as text and number, are incomparable and yield NULL."""

    def apply(left: Any, right: Any) -> bool | None:
        if left is None or right is None or kind_of(left) is not kind_of(right):
            return None
        try:
            return bool(compare(left, right))
        except TypeError:
            return None  # objects have no order

    return apply


equal = comparing(operator.eq)

COMPARISONS: dict[str, Callable[[Any, Any], bool | None]] = {
    "=": equal,
    "==": equal,
    "<>": comparing(operator.ne),
    "!=": comparing(operator.ne),
    "<": comparing(operator.lt),
    "<=": comparing(operator.le),
    ">": comparing(operator.gt),
    ">=": comparing(operator.ge),
}


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if kind_of(left) is not float or kind_of(right) is not float:
            return None
        try:
            return operation(left, right)
        except (ZeroDivisionError, OverflowError):
            return None

    return apply


def _divide(left: Any, right: Any) -> Any:
    """Divide; whole numbers round toward zero."""
    if isinstance(left, int) and isinstance(right, int):
        found = abs(left) // abs(right)
        return found if (left < 0) == (right < 0) else -found
    return left / right


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        return left - right * _divide(left, right)
    return math.fmod(left, right)


def concatenated(left: Any, right: Any) -> Any:
    if not isinstance(left, str) or not isinstance(right, str) or len(left) + len(right) > _MOST_TEXT:
        return None
    return left + right


def _add(left: Any, right: Any) -> Any:
    return concatenated(left, right) if isinstance(left, str) else _plus(left, right)


_plus = _arithmetic(operator.add)

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(_divide),
    "%": _arithmetic(_remainder),
    "||": concatenated,
}


# -- LIKE --


@lru_cache(maxsize=256)
def _segments(pattern: str, escape: str | None) -> list[re.Pattern[str]]:
    """Return the parts between percent signs. Each can match in one way only, so matching is quick."""
    found: list[list[str]] = [[]]
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            found[-1].append(re.escape(next(letters, escape)))
        elif letter == "%":
            found.append([])
        else:
            found[-1].append("." if letter == "_" else re.escape(letter))
    return [re.compile("".join(each), re.DOTALL) for each in found]


def like(text: Any, pattern: Any, escape: str | None = None) -> bool | None:
    if not isinstance(text, str) or not isinstance(pattern, str):
        return None
    first, *others = _segments(pattern, escape)
    if not others:
        return first.fullmatch(text) is not None
    begin = first.match(text)
    if begin is None:
        return False
    position = begin.end()
    for segment in others[:-1]:
        found = segment.search(text, position)
        if found is None:
            return False
        position = found.end()
    # Each segment has a fixed length, so the last one has a single possible position.
    length = _length_of(others[-1])
    return len(text) - length >= position and others[-1].fullmatch(text, len(text) - length) is not None


@lru_cache(maxsize=256)
def _length_of(segment: re.Pattern[str]) -> int:
    return len(re.sub(r"\\(.)", r"\1", segment.pattern, flags=re.DOTALL))


# -- functions --


class Function(NamedTuple):
    """`on_null`: also call the function with NULLs."""

    call: Callable[..., Any]
    least: int
    most: int
    on_null: bool = False


def _of_text(function: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda text: function(text) if isinstance(text, str) else None


def _of_number(function: Callable[[float], Any]) -> Callable[[Any], Any]:
    return lambda number: function(number) if kind_of(number) is float else None


def _length(of: Any) -> int | None:
    return len(of) if isinstance(of, (str, list)) else None


def _substring(text: Any, start: Any, length: Any = None) -> Any:
    """Positions start at 1; negative ones count from the end."""
    if not isinstance(text, str) or not isinstance(start, int) or not isinstance(length, (int, type(None))):
        return None
    begin = max(start - 1, 0) if start >= 0 else max(len(text) + start, 0)
    return text[begin:] if length is None else text[begin : begin + max(length, 0)]


def _instr(text: Any, part: Any) -> int | None:
    return text.find(part) + 1 if isinstance(text, str) and isinstance(part, str) else None


def _replace(text: Any, old: Any, new: Any) -> Any:
    if not (isinstance(text, str) and isinstance(old, str) and isinstance(new, str)) or not old:
        return None
    found = text.replace(old, new) if len(text) * max(len(new), 1) <= 100 * _MOST_TEXT else None
    return found


def _concat(*texts: Any) -> str:
    return "".join(str(each) for each in texts if each is not None)[:_MOST_TEXT]


def _first_known(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)


def _array_contains(array: Any, value: Any) -> bool | None:
    return any(equal(each, value) is True for each in array) if isinstance(array, list) else None


FUNCTIONS: dict[str, Function] = {
    "LOWER": Function(_of_text(str.lower), 1, 1),
    "LCASE": Function(_of_text(str.lower), 1, 1),
    "UPPER": Function(_of_text(str.upper), 1, 1),
    "UCASE": Function(_of_text(str.upper), 1, 1),
    "TRIM": Function(_of_text(str.strip), 1, 1),
    "LEN": Function(_length, 1, 1),
    "LENGTH": Function(_length, 1, 1),
    "ARRAY_LENGTH": Function(_length, 1, 1),
    "SUBSTRING": Function(_substring, 2, 3),
    "INSTR": Function(_instr, 2, 2),
    "REPLACE": Function(_replace, 3, 3),
    "CONCAT": Function(_concat, 1, 20, on_null=True),
    "COALESCE": Function(_first_known, 1, 20, on_null=True),
    "IFNULL": Function(_first_known, 2, 2, on_null=True),
    "ABS": Function(_of_number(abs), 1, 1),
    "ROUND": Function(_of_number(lambda number: math.floor(number + 0.5)), 1, 1),
    "FLOOR": Function(_of_number(math.floor), 1, 1),
    "CEIL": Function(_of_number(math.ceil), 1, 1),
    "ARRAY_CONTAINS": Function(_array_contains, 2, 2),
}


def _to_whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (str, int, float)) else None


def _to_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else None


def _to_truth(value: Any) -> bool | None:
    if isinstance(value, str):
        return value.lower() in ("true", "yes", "t", "y")
    return value if isinstance(value, bool) else None


_CASTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT"), _to_whole),
    **dict.fromkeys(
        ("DOUBLE", "DECIMAL"), lambda value: float(value) if kind_of(value) in (float, str) else None
    ),
    **dict.fromkeys(("STRING", "VARCHAR"), _to_text),
    "BOOLEAN": _to_truth,
}
TYPES = tuple(_CASTS)


def cast(value: Any, name: str) -> Any:
    if value is None:
        return None
    try:
        return _CASTS[name](value)
    except (ValueError, OverflowError):
        return None
