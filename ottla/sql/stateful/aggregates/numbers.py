"""Counting and numeric aggregates. All of them can undo."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from functools import reduce
from typing import Any

from ottla.sql.sql_types import SqlType, overflow
from ottla.sql.stateful.aggregates.accumulator import Accumulator, Values

_BITS = {"INTEGER": 32, "BIGINT": 64}
#: Decimals have up to 38 digits. Python's default context rounds to 28.
_EXACT = Context(prec=100)


def _plus(one: Any, other: Any) -> Any:
    return _EXACT.add(one, other) if isinstance(one, Decimal) else one + other


def _minus(one: Any, other: Any) -> Any:
    return _EXACT.subtract(one, other) if isinstance(one, Decimal) else one - other


class Count(Accumulator):
    """Counts values other than null."""

    can_undo = True

    def initial(self) -> int:
        return 0

    def add(self, state: int, values: Values, place: int) -> int:
        return state if values[0] is None else state + 1

    def undo(self, state: int, values: Values) -> int:
        return state if values[0] is None else state - 1

    def merge(self, one: int, other: int) -> int:
        return one + other


class Sum(Accumulator):
    """Keeps the type of its argument: an INT overflows as in Java."""

    can_undo = True

    def __init__(self, kind: SqlType | None) -> None:
        self._kind = kind

    def initial(self) -> Any:
        name = None if self._kind is None else self._kind.name
        return Decimal(0) if name == "DECIMAL" else 0.0 if name == "DOUBLE" else 0

    def add(self, state: Any, values: Values, place: int) -> Any:
        return state if values[0] is None else _plus(state, values[0])

    def undo(self, state: Any, values: Values) -> Any:
        return state if values[0] is None else _minus(state, values[0])

    def merge(self, one: Any, other: Any) -> Any:
        return _plus(one, other)

    def result(self, state: Any) -> Any:
        if self._kind is None:
            return state
        bits = _BITS.get(self._kind.name)
        if bits is not None:
            half = 1 << (bits - 1)
            return (state + half) % (1 << bits) - half
        if self._kind.name == "DECIMAL":
            scaled = Decimal(state).quantize(Decimal(1).scaleb(-self._kind.scale), context=_EXACT)
            if abs(scaled) >= Decimal(10) ** (self._kind.precision - self._kind.scale):
                raise ArithmeticError(overflow(self._kind))
            return scaled
        return state


class SumList(Sum):
    """Sums the elements of arrays, skipping nulls."""

    def _total(self, values: Values) -> Any:
        elements = (each for each in values[0] or () if each is not None)
        return reduce(_plus, elements, self.initial())

    def add(self, state: Any, values: Values, place: int) -> Any:
        return _plus(state, self._total(values))

    def undo(self, state: Any, values: Values) -> Any:
        return _minus(state, self._total(values))


class Average(Accumulator):
    can_undo = True

    def initial(self) -> tuple[float, int]:
        return (0.0, 0)

    def add(self, state: tuple[float, int], values: Values, place: int) -> tuple[float, int]:
        return state if values[0] is None else (state[0] + float(values[0]), state[1] + 1)

    def undo(self, state: tuple[float, int], values: Values) -> tuple[float, int]:
        return state if values[0] is None else (state[0] - float(values[0]), state[1] - 1)

    def merge(self, one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        return (one[0] + other[0], one[1] + other[1])

    def result(self, state: tuple[float, int]) -> float:
        return state[0] / state[1] if state[1] else 0.0


Moments = tuple[int, float, float]


class Variance(Accumulator):
    """Sample variance. The state is the count, the sum, and the sum of squared deviations from the mean."""

    can_undo = True

    def initial(self) -> Moments:
        return (0, 0.0, 0.0)

    def add(self, state: Moments, values: Values, place: int) -> Moments:
        if values[0] is None:
            return state
        count, total, squares = state[0] + 1, state[1] + float(values[0]), state[2]
        if count > 1:
            squares += (count * float(values[0]) - total) ** 2 / (count * (count - 1))
        return (count, total, squares)

    def undo(self, state: Moments, values: Values) -> Moments:
        if values[0] is None:
            return state
        count, total, squares = state
        if count <= 1:
            return self.initial()
        squares -= (count * float(values[0]) - total) ** 2 / (count * (count - 1))
        return (count - 1, total - float(values[0]), max(squares, 0.0))

    def merge(self, one: Moments, other: Moments) -> Moments:
        if not one[0] or not other[0]:
            return one if one[0] else other
        apart = one[1] / one[0] - other[1] / other[0]
        count = one[0] + other[0]
        return (count, one[1] + other[1], one[2] + other[2] + apart**2 * one[0] * other[0] / count)

    def result(self, state: Moments) -> float:
        return state[2] / (state[0] - 1) if state[0] > 1 else 0.0


class StandardDeviation(Variance):
    def result(self, state: Moments) -> float:
        return math.sqrt(super().result(state))


Sums = tuple[int, float, float, float, float, float]


class Correlation(Accumulator):
    """Pearson's coefficient over pairs without nulls."""

    can_undo = True

    def initial(self) -> Sums:
        return (0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def _changed(self, state: Sums, values: Values, sign: int) -> Sums:
        if values[0] is None or values[1] is None:
            return state
        x, y = float(values[0]), float(values[1])
        more = (1, x, y, x * x, y * y, x * y)
        return tuple(old + sign * new for old, new in zip(state, more, strict=True))  # type: ignore[return-value]

    def add(self, state: Sums, values: Values, place: int) -> Sums:
        return self._changed(state, values, 1)

    def undo(self, state: Sums, values: Values) -> Sums:
        return self._changed(state, values, -1)

    def merge(self, one: Sums, other: Sums) -> Sums:
        return tuple(a + b for a, b in zip(one, other, strict=True))  # type: ignore[return-value]

    def result(self, state: Sums) -> float:
        n, x, y, xx, yy, xy = state
        spread = (n * xx - x * x) * (n * yy - y * y)
        return (n * xy - x * y) / math.sqrt(spread) if n > 1 and spread > 0 else math.nan
