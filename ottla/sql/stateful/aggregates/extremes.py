"""MIN, MAX and TOPK. None of them can undo, because they forget the other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.sql.stateful.aggregates.accumulator import Accumulator, Values


class Extreme(Accumulator):
    """MIN or MAX, with a function that chooses between two values."""

    def __init__(self, choose: Callable[[Any, Any], Any]) -> None:
        self._choose = choose

    def initial(self) -> Any:
        return None

    def add(self, state: Any, values: Values, place: int) -> Any:
        return self.merge(state, values[0])

    def merge(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return self._choose(one, other)


class TopK(Accumulator):
    """Among equal values, the first wins. With other columns, the result is an array of structs."""

    def __init__(self, count: int, others: int = 0) -> None:
        self._count = count
        self._names = ["sort_col", *(f"col{i}" for i in range(others))]

    def initial(self) -> tuple[Any, ...]:
        return ()

    def add(self, state: tuple[Any, ...], values: Values, place: int) -> tuple[Any, ...]:
        return state if values[0] is None else self._largest((*state, tuple(values)))

    def _largest(self, rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted(rows, key=lambda row: row[0], reverse=True)[: self._count])

    def merge(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._largest((*one, *other))

    def result(self, state: tuple[Any, ...]) -> list[Any]:
        if len(self._names) == 1:
            return [row[0] for row in state]
        return [dict(zip(self._names, row, strict=True)) for row in state]


class TopKDistinct(Accumulator):
    def __init__(self, count: int) -> None:
        self._count = count

    def initial(self) -> tuple[Any, ...]:
        return ()

    def add(self, state: tuple[Any, ...], values: Values, place: int) -> tuple[Any, ...]:
        return state if values[0] is None or values[0] in state else self.merge(state, (values[0],))

    def merge(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(sorted({*one, *other}, reverse=True)[: self._count])

    def result(self, state: tuple[Any, ...]) -> list[Any]:
        return list(state)
