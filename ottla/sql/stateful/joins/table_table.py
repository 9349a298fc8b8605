"""Table-table join by primary keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.spark.state import State
from ottla.spark.state.value_codec import decode, encode
from ottla.sql.stateful.joins.sides import Sides
from ottla.sql.stateful.records import Record

_LEFT, _RIGHT = b"l", b"r"


@dataclass(frozen=True)
class TableTableJoin:
    """A change of either table changes the result, at the later of both times.

    `keeps_left` and `keeps_right` tell whether a row of that table yields a result without a match.
    """

    name: str
    sides: Sides
    keeps_left: bool
    keeps_right: bool

    def process(self, record: Record, state: State) -> Iterable[Record]:
        if record.key is None:
            return ()
        is_right = self.sides.is_right(record.input)
        mine, theirs = (_RIGHT, _LEFT) if is_right else (_LEFT, _RIGHT)
        before = state.get(mine + record.key)
        row = self.sides.right_of(record.values) if is_right else self.sides.left_of(record.values)
        if record.deleted:
            state.delete(mine + record.key)
        else:
            state.put(mine + record.key, encode((record.time, row)))
        held = state.get(theirs + record.key)
        keeps_mine = self.keeps_right if is_right else self.keeps_left
        keeps_theirs = self.keeps_left if is_right else self.keeps_right
        if held is None and (not keeps_mine or (record.deleted and before is None)):
            return ()  # no result before or after
        time, other = (record.time, None) if held is None else decode(held)
        is_gone = record.deleted and (held is None or not keeps_theirs)
        # A deletion keeps the key columns, from which its key is built.
        mine_now: Any = row if is_gone or not record.deleted else None
        values = self.sides.joined(other, mine_now) if is_right else self.sides.joined(mine_now, other)
        return (Record(0, record.key, max(record.time, time), is_gone, values),)
