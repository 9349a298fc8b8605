"""Joins by the same key, one after the other: what one makes is the left side of the next, record by record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.spark.state import Namespace, State
from ottla.sql.stateful.records import Operator, Record


@dataclass(frozen=True)
class JoinChain:
    """`joins` have inputs that follow each other: the first has `first` on its right side, the next the one after."""

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
