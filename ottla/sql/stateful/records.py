"""Records, and the operators that process them."""

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
    """A step with state. The documentation of the package describes it."""

    @property
    def name(self) -> str:
        """Names its state under the checkpoint; no two stages of a query have the same."""
        ...

    def process(self, record: Record, state: State) -> Iterable[Record]: ...


@runtime_checkable
class Finishing(Protocol):
    """An operator that keeps things at hand during a batch, or sends records when the batch is over."""

    def finish(self, state: State) -> Iterable[Record]: ...
