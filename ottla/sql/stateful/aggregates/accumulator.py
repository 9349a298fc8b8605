"""The interface of an aggregate: pure functions over a state that consists of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Values = Sequence[Any]


class Accumulator:
    """`place` grows with each record that is processed: what came later has the higher one.

    States are never changed in place: the one before a change is still needed, for HAVING.
    """

    #: Whether a row can be taken out again: the aggregate works over tables then.
    can_undo = False

    def initial(self) -> Any:
        raise NotImplementedError

    def add(self, state: Any, values: Values, place: int) -> Any:
        raise NotImplementedError

    def undo(self, state: Any, values: Values) -> Any:
        raise NotImplementedError

    def merge(self, one: Any, other: Any) -> Any:
        """Two sessions become one; `one` began first."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        return state


def frozen(value: Any) -> Any:
    """The same for equal values, and hashable."""
    if isinstance(value, dict):
        return ("map", frozenset((name, frozen(each)) for name, each in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *map(frozen, value))
    # 1 and True are equal in Python.
    return ("bool", value) if isinstance(value, bool) else value
