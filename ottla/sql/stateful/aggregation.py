"""Operators for GROUP BY: one tracks the rows of a table, the other updates groups.

Input and output payloads have the same columns, so that Spark derives their types from the preceding projection:
groups, the arguments of all calls, results, previous results, window bounds, and whether the group had a row before.
For tables, the previous arguments and the kind of change follow the arguments, and the row key comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.spark.state import State
from ottla.sql.sql_types import SqlType
from ottla.sql.stateful.aggregates.values import for_arrow, for_python, plain
from ottla.sql.stateful.grouped import (
    Aggregation,
    Aggregator,
    Arguments,
    Change,
    GroupRow,
    TableRows,
    last_of_each,
)
from ottla.sql.stateful.records import Record
from ottla.sql.stateful.sessions import SessionAggregator

#: Kinds of change to a table row: added to a group, removed from it, or replaced within it.
CAME, WENT, REPLACED = 1, 2, 3


@dataclass(frozen=True)
class Layout:
    """Positions of the columns in the payload."""

    groups: int
    arguments: tuple[int, ...]  # number of arguments of each call
    of_table: bool
    results: tuple[SqlType | None, ...]

    @property
    def _count(self) -> int:
        return sum(self.arguments)

    def group(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[: self.groups])

    def _calls(self, values: Sequence[Any], start: int) -> Arguments:
        calls = []
        for count in self.arguments:
            calls.append(tuple(values[start : start + count]))
            start += count
        return tuple(calls)

    def now(self, values: Sequence[Any]) -> Arguments:
        return self._calls(values, self.groups)

    def was(self, values: Sequence[Any]) -> Arguments:
        return self._calls(values, self.groups + self._count)

    def became(self, values: Sequence[Any]) -> int:
        return int(values[self.groups + 2 * self._count])

    def there(self, values: Sequence[Any]) -> bool:
        """Return True if the table row is not deleted and passes WHERE."""
        return bool(values[-2])

    def change(self, change: Change) -> tuple[Any, ...]:
        nothing = tuple((None,) * count for count in self.arguments)
        became = WENT if change.added is None else CAME if change.removed is None else REPLACED
        added = change.added if change.added is not None else nothing
        removed = change.removed if change.removed is not None else nothing
        flat = [each for call in (*added, *removed) for each in call]
        return (*change.group, *flat, became, *(None,) * (2 * len(self.results) + 4))

    def row(self, row: GroupRow) -> tuple[Any, ...]:
        width = self._count * (2 if self.of_table else 1) + (1 if self.of_table else 0)
        return (
            *row.group,
            *(None,) * width,
            *self._shown(row.results),
            *self._shown(row.before),
            row.start,
            row.end,
            row.before is not None,
            *(None,) * self.of_table,
        )

    def _shown(self, results: Sequence[Any] | None) -> tuple[Any, ...]:
        if results is None:
            return (None,) * len(self.results)
        return tuple(for_arrow(each, kind) for each, kind in zip(results, self.results, strict=True))


@dataclass
class TableRowsOperator:
    """Tracks rows by table key and emits what leaves and enters groups."""

    name: str
    layout: Layout
    _running: TableRows | None = None

    def process(self, record: Record, state: State) -> Iterable[Record]:
        if record.key is None:
            return []
        if self._running is None:
            self._running = TableRows(state)
        values, layout = record.values, self.layout
        now = (layout.group(values), layout.now(values)) if layout.there(values) else None
        changes = self._running.process((record.key,), record.time, now)
        return [Record(0, None, record.time, False, layout.change(each)) for each in changes]

    def finish(self, state: State) -> Iterable[Record]:
        if self._running is not None:
            self._running.flush()
            self._running = None
        return []


@dataclass
class AggregateOperator:
    """Aggregates by group. At the end of the batch it emits the last row of each group, or every change."""

    name: str
    layout: Layout
    aggregation: Aggregation
    _running: Aggregator | None = None
    _rows: list[GroupRow] | None = None

    def process(self, record: Record, state: State) -> Iterable[Record]:
        if self._running is None:
            kind = SessionAggregator if self.aggregation.window == "SESSION" else Aggregator
            self._running, self._rows = kind(self.aggregation, state), []
        assert self._rows is not None
        self._rows += self._running.process(self._change(record))
        return []

    def _change(self, record: Record) -> Change:
        values, layout = record.values, self.layout
        group = layout.group(values)
        if not layout.of_table:
            return Change(group, record.time, self._seen(layout.now(values)))
        became = layout.became(values)
        return Change(
            group,
            record.time,
            None if became == WENT else self._seen(layout.now(values)),
            None if became == CAME else self._seen(layout.was(values)),
        )

    def _seen(self, arguments: Arguments) -> Arguments:
        seen = []
        for call, values in zip(self.aggregation.calls, arguments, strict=True):
            if call.user is None:
                seen.append(tuple(plain(each, kind) for each, kind in zip(values, call.types, strict=True)))
            else:
                kinds = [each.type for each in call.parameters()]
                seen.append(tuple(for_python(each, kind) for each, kind in zip(values, kinds, strict=True)))
        return tuple(seen)

    def finish(self, state: State) -> Iterable[Record]:
        if self._running is None or self._rows is None:
            return []
        self._running.flush()
        rows = self._rows if self.aggregation.every_change else last_of_each(self._rows)
        self._running = self._rows = None
        return [Record(0, None, row.time, row.results is None, self.layout.row(row)) for row in rows]
