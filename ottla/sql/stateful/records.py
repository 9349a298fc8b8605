"""Records and operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ottla.spark.state import State

Values = tuple[Any, ...]


class Record(NamedTuple):
    input: int
    key: bytes | None
    time: int
    deleted: bool
    values: Values


class Operator(Protocol):
    """Step with state, described in the package documentation."""

    @property
    def name(self) -> str:
        """Return the name of the state under the checkpoint, unique within a query."""
        ...

    def process(self, record: Record, state: State) -> Iterable[Record]: ...


@runtime_checkable
class Finishing(Protocol):
    """Operator that caches data during a batch, or emits records at its end."""

    def finish(self, state: State) -> Iterable[Record]: ...
