"""Foreign-key join of two tables, in three stages because the rows of a foreign key have different primary keys:

1. `ForeignKeys`, by the left primary key, knows the old row and notifies its old foreign key of the removal.
2. `ForeignKeyJoin`, by the foreign key, holds the matching left rows and the right row.
3. `InOrder`, by the left primary key, orders the results of a row, which may come from several partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.spark.state import Namespace, State
from ottla.spark.state.value_codec import decode, encode, encode_key
from ottla.sql.stateful.joins.sides import Sides
from ottla.sql.stateful.records import Record, Values


@dataclass(frozen=True)
class Changes:
    """Inputs of the second stage, by kind of change in the first stage. They follow the inputs of the sources."""

    sources: int
    new: int = 0

    @property
    def replaced(self) -> int:
        return self.sources

    @property
    def gone(self) -> int:
        return self.sources + 1

    @property
    def deleted(self) -> int:
        return self.sources + 2

    def all(self) -> tuple[int, ...]:
        return (self.new, self.replaced, self.gone, self.deleted)


_ROWS, _RIGHT = b"l", b"r"


@dataclass(frozen=True)
class ForeignKeys:
    name: str
    changes: Changes = Changes(2)

    def process(self, record: Record, state: State) -> Iterable[Record]:
        if record.key is None:
            return
        held = state.get(record.key)
        if record.deleted:
            state.delete(record.key)
            if held is not None:
                yield Record(self.changes.deleted, None, record.time, True, decode(held))
            return
        state.put(record.key, encode(record.values))
        if held is not None:
            yield Record(self.changes.gone, None, record.time, False, decode(held))
        kind = self.changes.new if held is None else self.changes.replaced
        yield Record(kind, None, record.time, False, record.values)


@dataclass(frozen=True)
class ForeignKeyJoin:
    """`primary` lists the positions of the primary key columns in the row of the first source.

    A null foreign key matches no row of the right table.
    """

    name: str
    sides: Sides
    keeps_left: bool
    primary: tuple[int, ...]
    changes: Changes = Changes(2)

    def process(self, record: Record, state: State) -> Iterable[Record]:
        if self.sides.is_right(record.input):
            return () if record.key is None else self._right(record, record.key, state)
        if record.key is not None:
            place = self.place(record.key, record.values)
            rows = Namespace(state, _ROWS)
            if record.input in (self.changes.gone, self.changes.deleted):
                rows.delete(place)
            else:
                rows.put(place, encode((record.time, record.values)))
        return () if record.input == self.changes.gone else self._left(record, state)

    def place(self, foreign_key: bytes, values: Values) -> bytes:
        """Return the key of a left row: the foreign key, then the primary key."""
        row = self.sides.left_of(values)[0]
        return _prefix(foreign_key) + encode_key(tuple(row[each] for each in self.primary))

    def _left(self, record: Record, state: State) -> Iterable[Record]:
        held = None if record.key is None else state.get(_RIGHT + record.key)
        time, right = (record.time, None) if held is None else decode(held)
        is_gone = record.input == self.changes.deleted or (right is None and not self.keeps_left)
        if (
            is_gone
            and not self.keeps_left
            and (
                record.input == self.changes.new or (record.input == self.changes.deleted and not record.key)
            )
        ):
            return  # no result before or after
        yield Record(0, None, max(time, record.time), is_gone, self.sides.joined(record.values, right))

    def _right(self, record: Record, key: bytes, state: State) -> Iterable[Record]:
        before = state.get(_RIGHT + key)
        right = None if record.deleted else self.sides.right_of(record.values)
        if right is not None:
            state.put(_RIGHT + key, encode((record.time, right)))
        elif before is None:
            return
        else:
            state.delete(_RIGHT + key)
        for _, held in Namespace(state, _ROWS).scan(_prefix(key)):
            time, values = decode(held)
            is_gone = right is None and not self.keeps_left
            yield Record(0, None, max(time, record.time), is_gone, self.sides.joined(values, right))


@dataclass(frozen=True)
class InOrder:
    """Stateless: the stage itself groups the records of a key in order."""

    name: str

    def process(self, record: Record, state: State) -> Iterable[Record]:
        return (record,)


def _prefix(key: bytes) -> bytes:
    """Add the length, so that no key is a prefix of another key."""
    return len(key).to_bytes(4, "big") + key
