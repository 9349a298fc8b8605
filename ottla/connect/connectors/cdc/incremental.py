"""Incremental snapshots: tables read in chunks between the changes, on request by signals.

A chunk shows the rows of one moment. Until the stream has passed that moment, each change drops its row from the chunk:
the change itself tells consumers more. The remaining rows follow the changes. Unlike Debezium, this needs no watermarks
in the signalling table.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from ottla.connect.connectors.cdc.envelope import CapturedTable, Row
from ottla.connect.data.struct import Struct

_log = logging.getLogger(__name__)

_TABLES, _KEY, _MAXIMUM = (
    "incremental_snapshot_collections",
    "incremental_snapshot_primary_key",
    "incremental_snapshot_maximum_key",
)
_PAUSED, _SIGNAL = "incremental_snapshot_paused", "incremental_snapshot_signal"
_TABLE_FIELD = "incremental_snapshot_collections_"

#: Key values as texts, in the database's format.
Texts = tuple[str, ...]


class Signal(NamedTuple):
    """A row of the signalling table."""

    id: str
    type: str
    data: str
    #: Position of the row in the log. A signal that is read again has the same.
    at: tuple[int, int]


class WantedTable(NamedTuple):
    name: str
    #: SQL condition on the rows.
    condition: str | None = None
    #: Column to order by instead of the key.
    surrogate_key: str | None = None


@dataclass(frozen=True)
class IncrementalProgress:
    """The tables still to read, and the place in the first one. Travels in the offsets of all records."""

    tables: tuple[WantedTable, ...] = ()
    key: Texts | None = None
    #: Highest key of the first table when its snapshot began.
    maximum: Texts | None = None
    is_paused: bool = False
    #: Position of the last signal.
    signal_at: tuple[int, int] | None = None

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> IncrementalProgress:
        if not offset.get(_TABLES):
            return cls()
        tables = tuple(
            WantedTable(*(each.get(f"{_TABLE_FIELD}{field}") for field in _FIELDS))
            for each in json.loads(offset[_TABLES])
        )
        signal = json.loads(offset.get(_SIGNAL) or "null")
        return cls(
            tables,
            _texts(offset.get(_KEY)),
            _texts(offset.get(_MAXIMUM)),
            bool(offset.get(_PAUSED)),
            tuple(signal) if signal else None,
        )

    def to_offset(self) -> dict[str, Any]:
        if not self.tables:
            return {}
        named = [
            {f"{_TABLE_FIELD}{field}": value for field, value in zip(_FIELDS, each, strict=True)}
            for each in self.tables
        ]
        offset: dict[str, Any] = {_TABLES: json.dumps(named)}
        for name, value in ((_KEY, self.key), (_MAXIMUM, self.maximum), (_SIGNAL, self.signal_at)):
            if value is not None:
                offset[name] = json.dumps(value)
        if self.is_paused:
            offset[_PAUSED] = True
        return offset

    def next_table(self) -> IncrementalProgress:
        return replace(self, tables=self.tables[1:], key=None, maximum=None)


_FIELDS = ("id", "additional_condition", "surrogate_key")


def _texts(found: Any) -> Texts | None:
    """Debezium's own keys are serialized Java objects: begin the table again."""
    try:
        return tuple(json.loads(found)) if found else None
    except ValueError:
        return None


class ChunkRow(NamedTuple):
    values: Row
    #: Place in the order of the snapshot.
    place: Texts


class Chunk(NamedTuple):
    table: CapturedTable
    rows: Sequence[ChunkRow]
    maximum: Texts | None
    is_last: bool


class ChunkSource(Protocol):
    """The database's part."""

    def tables(self) -> Sequence[str]:
        """Return the captured tables, as schema.table."""

    def read(self, progress: IncrementalProgress) -> Chunk | None:
        """Read the next rows of the first table. Return None to try again after the next changes."""

    def of_row(self, table: CapturedTable) -> tuple[Struct, dict[str, Any]]:
        """Return the `source` struct and the offset of a row that is published now."""


class IncrementalSnapshot:
    """Owner: the task. `progress` may be replaced to return to an earlier state; then call `forget`."""

    def __init__(self, source: ChunkSource, progress: IncrementalProgress) -> None:
        self._source = source
        self.progress = progress
        self._chunk: Chunk | None = None
        self._rows: dict[tuple[bytes | None, ...], ChunkRow] = {}

    @property
    def is_open(self) -> bool:
        """Return True while a chunk waits for the stream."""
        return self._chunk is not None

    @property
    def wants_chunk(self) -> bool:
        return self._chunk is None and bool(self.progress.tables) and not self.progress.is_paused

    def forget(self) -> None:
        self._chunk, self._rows = None, {}

    def read_chunk(self) -> None:
        chunk = self._source.read(self.progress)
        if chunk is not None:
            self._chunk = chunk
            self._rows = {_key(chunk.table, each.values): each for each in chunk.rows}

    def touched(self, table: CapturedTable, row: Row) -> None:
        if self._chunk is not None and self._chunk.table.full_name == table.full_name:
            self._rows.pop(_key(table, row), None)

    def truncated(self, table: CapturedTable) -> None:
        if self._chunk is not None and self._chunk.table.full_name == table.full_name:
            self._rows.clear()

    def close_chunk(self) -> list[tuple[CapturedTable, Row, Struct, dict[str, Any]]]:
        """Return the remaining rows of the chunk, with the offsets behind each, and advance."""
        chunk, rows = self._chunk, list(self._rows.values())
        assert chunk is not None
        self.forget()
        after = replace(self.progress, maximum=chunk.maximum)
        if chunk.rows:
            after = replace(after, key=chunk.rows[-1].place)
        if chunk.is_last:
            _log.info("The incremental snapshot of %s is complete.", after.tables[0].name)
            after = after.next_table()
        found = []
        for number, each in enumerate(rows, 1):
            here = (
                after
                if number == len(rows)
                else replace(self.progress, key=each.place, maximum=chunk.maximum)
            )
            source, offset = self._source.of_row(chunk.table)
            found.append((chunk.table, each.values, source, {**offset, **here.to_offset()}))
        self.progress = after
        return found

    # Signals

    def handle(self, signal: Signal) -> None:
        """Carry out a signal once. Unusable ones are logged, as by Debezium."""
        if self.progress.signal_at is not None and signal.at <= self.progress.signal_at:
            return
        try:
            data = json.loads(signal.data or "{}")
        except ValueError:
            data = None
        if not isinstance(data, dict):
            _log.warning("Signal %s is ignored: its data is not a JSON object.", signal.id)
            return
        if signal.type == "log":
            _log.info("Signal %s: %s", signal.id, data.get("message"))
        elif signal.type == "execute-snapshot":
            self._execute(signal, data)
        elif signal.type == "stop-snapshot":
            self._stop(data)
        elif signal.type in ("pause-snapshot", "resume-snapshot"):
            self.progress = replace(self.progress, is_paused=signal.type == "pause-snapshot")
        elif signal.type not in ("snapshot-window-open", "snapshot-window-close"):
            _log.warning("Signal %s is ignored: its type %s is not known.", signal.id, signal.type)
        if self.progress.tables:
            self.progress = replace(self.progress, signal_at=signal.at)

    def _execute(self, signal: Signal, data: Mapping[str, Any]) -> None:
        kind = str(data.get("type") or "incremental").lower()
        if kind != "incremental":
            _log.warning(
                "Signal %s is ignored: there are only incremental snapshots, not %s.", signal.id, kind
            )
            return
        conditions = {
            each.get("data-collection"): each.get("filter")
            for each in data.get("additional-conditions") or ()
            if isinstance(each, Mapping)
        }
        waiting = {each.name for each in self.progress.tables}
        found = [
            WantedTable(
                name,
                next((filter for table, filter in conditions.items() if _matches(str(table), name)), None),
                data.get("surrogate-key"),
            )
            for pattern in _patterns(data)
            for name in self._source.tables()
            if _matches(pattern, name) and name not in waiting
        ]
        if not found:
            _log.warning(
                "Signal %s names no captured table that is not being read: %s", signal.id, signal.data
            )
        self.progress = replace(self.progress, tables=(*self.progress.tables, *dict.fromkeys(found)))

    def _stop(self, data: Mapping[str, Any]) -> None:
        patterns = _patterns(data)
        before = self.progress.tables
        kept = tuple(
            each
            for each in before
            if patterns and not any(_matches(pattern, each.name) for pattern in patterns)
        )
        if kept[:1] != before[:1]:
            self.forget()
            self.progress = replace(self.progress, key=None, maximum=None)
        self.progress = replace(self.progress, tables=kept)


def _patterns(data: Mapping[str, Any]) -> list[str]:
    named = data.get("data-collections") or ()
    return [str(each) for each in named] if isinstance(named, list) else []


def _matches(pattern: str, table: str) -> bool:
    try:
        return re.fullmatch(pattern, table, re.IGNORECASE) is not None
    except re.error:
        return False


def _key(table: CapturedTable, row: Row) -> tuple[bytes | None, ...]:
    return tuple(row[column.position] for column in table.key_columns)
