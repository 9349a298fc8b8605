"""What a statement gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.sql.parsing.statements import Statement

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


@dataclass
class Result:
    """A sentence, or columns with rows, or both. The rows of a push query come as one iterates over them."""

    statement: Statement
    message: str | None = None
    columns: tuple[str, ...] = ()
    rows: Iterable[tuple[Any, ...]] = ()
    is_push: bool = False
    query: StreamingQuery | None = None
    kinds: Callable[[], tuple[str, ...]] | None = None  # asks Spark, which takes a moment

    @property
    def types(self) -> tuple[str, ...]:
        """Of the columns of a SELECT, as ksqlDB writes them; empty for other statements."""
        return () if self.kinds is None else self.kinds()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
