"""First and last values in processing order."""

from __future__ import annotations

from typing import Any

from ottla.sql.stateful.aggregates.accumulator import Accumulator, Values

Placed = tuple[tuple[int, Any], ...]


class ByOffset(Accumulator):
    """One value, or an array of `count` values."""

    def __init__(self, *, last: bool, count: int | None, ignores_nulls: bool) -> None:
        self._last = last
        self._count = count
        self._ignores_nulls = ignores_nulls

    def initial(self) -> Placed:
        return ()

    def add(self, state: Placed, values: Values, place: int) -> Placed:
        if values[0] is None and self._ignores_nulls:
            return state
        return self.merge(state, ((place, values[0]),))

    def merge(self, one: Placed, other: Placed) -> Placed:
        both = sorted((*one, *other), key=lambda each: each[0])
        kept = self._count or 1
        return tuple(both[-kept:] if self._last else both[:kept])

    def result(self, state: Placed) -> Any:
        if self._count is None:
            return state[0][1] if state else None
        return [value for _, value in state]
