"""Result of a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.sql.parsing.statements import Statement

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


@dataclass
class Result:
    """A message, columns with rows, or both. Iterating over the rows of a push query waits for them."""

    statement: Statement
    message: str | None = None
    columns: tuple[str, ...] = ()
    rows: Iterable[tuple[Any, ...]] = ()
    is_push: bool = False
    query: StreamingQuery | None = None
    kinds: Callable[[], tuple[str, ...]] | None = None  # slow, because it asks Spark

    @property
    def types(self) -> tuple[str, ...]:
        """Return the column types of a SELECT in ksqlDB's notation; empty for other statements."""
        return () if self.kinds is None else self.kinds()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
