"""Aggregates that keep all values, or the count of each value."""

from __future__ import annotations

from typing import Any

from ottla.sql.stateful.aggregates.accumulator import Accumulator, Values, frozen

_HISTOGRAM_LIMIT = 1000


class CollectList(Accumulator):
    """Collects values in arrival order, including nulls."""

    can_undo = True

    def initial(self) -> tuple[Any, ...]:
        return ()

    def add(self, state: tuple[Any, ...], values: Values, place: int) -> tuple[Any, ...]:
        return (*state, values[0])

    def undo(self, state: tuple[Any, ...], values: Values) -> tuple[Any, ...]:
        """Remove the last equal value, as in ksqlDB."""
        gone = frozen(values[0])
        for number in range(len(state) - 1, -1, -1):
            if frozen(state[number]) == gone:
                return (*state[:number], *state[number + 1 :])
        return state

    def merge(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*one, *other)

    def result(self, state: tuple[Any, ...]) -> list[Any]:
        return list(state)


class CollectSet(Accumulator):
    def initial(self) -> dict[Any, Any]:
        return {}

    def add(self, state: dict[Any, Any], values: Values, place: int) -> dict[Any, Any]:
        name = frozen(values[0])
        return state if name in state else {**state, name: values[0]}

    def merge(self, one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
        return {**one, **{name: value for name, value in other.items() if name not in one}}

    def result(self, state: dict[Any, Any]) -> Any:
        return list(state.values())


class CountDistinct(CollectSet):
    """Exact count, where ksqlDB estimates. Nulls are ignored."""

    def add(self, state: dict[Any, Any], values: Values, place: int) -> dict[Any, Any]:
        return state if values[0] is None else super().add(state, [values[0]], place)

    def result(self, state: dict[Any, Any]) -> int:
        return len(state)


class Histogram(Accumulator):
    """Counts each string, up to a thousand different strings."""

    can_undo = True

    def initial(self) -> dict[str, int]:
        return {}

    def add(self, state: dict[str, int], values: Values, place: int) -> dict[str, int]:
        return state if values[0] is None else self.merge(state, {values[0]: 1})

    def undo(self, state: dict[str, int], values: Values) -> dict[str, int]:
        left = {name: count - (name == values[0]) for name, count in state.items()}
        return {name: count for name, count in left.items() if count > 0}

    def merge(self, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        both = dict(one)
        for name, count in other.items():
            if name in both or len(both) < _HISTOGRAM_LIMIT:
                both[name] = both.get(name, 0) + count
        return both


Counted = dict[Any, tuple[Any, int]]


class Attr(Accumulator):
    """The common value of all rows, or null if they differ."""

    can_undo = True

    def initial(self) -> Counted:
        return {}

    def add(self, state: Counted, values: Values, place: int) -> Counted:
        return self.merge(state, {frozen(values[0]): (values[0], 1)})

    def undo(self, state: Counted, values: Values) -> Counted:
        gone = frozen(values[0])
        left = {name: (value, count - (name == gone)) for name, (value, count) in state.items()}
        return {name: each for name, each in left.items() if each[1] > 0}

    def merge(self, one: Counted, other: Counted) -> Counted:
        both = dict(one)
        for name, (value, count) in other.items():
            both[name] = (value, both.get(name, (value, 0))[1] + count)
        return both

    def result(self, state: Counted) -> Any:
        return next(iter(state.values()))[0] if len(state) == 1 else None
