"""Two sides of a join in one row: the sources joined so far, and the next source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.sql.stateful.records import Values


@dataclass(frozen=True)
class Sides:
    """A row has a value for each of `sources`. Values before index `right` are the left side."""

    right: int
    sources: int

    def is_right(self, number: int) -> bool:
        return number == self.right

    def left_of(self, values: Values) -> Values:
        return values[: self.right]

    def right_of(self, values: Values) -> Any:
        return values[self.right]

    def joined(self, left: Values | None, right: Any) -> Values:
        """Combine both sides. `left` may be a whole row."""
        before = (None,) * self.right if left is None else left[: self.right]
        return (*before, right, *(None,) * (self.sources - self.right - 1))
