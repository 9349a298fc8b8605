"""Chain of joins by the same key: the output of each join is the left side of the next, record by record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.spark.state import Namespace, State
from ottla.sql.stateful.records import Operator, Record


@dataclass(frozen=True)
class JoinChain:
    """`joins` have consecutive inputs, starting with `first` on the right side of the first join."""

    name: str
    first: int
    joins: tuple[Operator, ...]

    def process(self, record: Record, state: State) -> Iterable[Record]:
        at = max(record.input - self.first, 0)
        records: Iterable[Record] = (record,)
        for number in range(at, len(self.joins)):
            part = Namespace(state, bytes([number]))
            records = [made for each in records for made in self.joins[number].process(each, part)]
        return records
