"""Stream-table join."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.spark.state import State
from ottla.spark.state.value_codec import decode, encode
from ottla.sql.stateful.joins.sides import Sides
from ottla.sql.stateful.records import Record


@dataclass(frozen=True)
class StreamTableJoin:
    """Joins each stream record with the current row of the table. Table records emit no result."""

    name: str
    sides: Sides
    keeps_left: bool

    def process(self, record: Record, state: State) -> Iterable[Record]:
        if record.key is None:
            return ()
        if self.sides.is_right(record.input):
            if record.deleted:
                state.delete(record.key)
            else:
                state.put(record.key, encode(self.sides.right_of(record.values)))
            return ()
        found = state.get(record.key)
        if found is None and not self.keeps_left:
            return ()
        right = None if found is None else decode(found)
        return (record._replace(input=0, values=self.sides.joined(record.values, right)),)
