"""Interface of aggregates: pure functions over a state of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Values = Sequence[Any]


class Accumulator:
    """`place` increases with each record, so later records have a higher `place`.

    States are immutable: HAVING still needs the state before a change.
    """

    #: Whether rows can be removed again, which tables require.
    can_undo = False

    def initial(self) -> Any:
        raise NotImplementedError

    def add(self, state: Any, values: Values, place: int) -> Any:
        raise NotImplementedError

    def undo(self, state: Any, values: Values) -> Any:
        raise NotImplementedError

    def merge(self, one: Any, other: Any) -> Any:
        """Merge two sessions. `one` started first."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        return state


def frozen(value: Any) -> Any:
    """Return a hashable value that is equal for equal inputs."""
    if isinstance(value, dict):
        return ("map", frozenset((name, frozen(each)) for name, each in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *map(frozen, value))
    # 1 and True are equal in Python.
    return ("bool", value) if isinstance(value, bool) else value
