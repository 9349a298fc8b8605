"""Captures the changes of a PostgreSQL database from a replication slot."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import psycopg

from ottla.connect.api import Config
from ottla.connect.config.config_def import ConfigDef
from ottla.connect.connectors.cdc.capture import Began, Changed, Ended, Item
from ottla.connect.connectors.cdc.envelope import CapturedTable, Events, Row
from ottla.connect.connectors.cdc.filters import Filters
from ottla.connect.connectors.cdc.heartbeat import Heartbeat
from ottla.connect.connectors.cdc.incremental import Signal
from ottla.connect.connectors.cdc.postgres.catalog import Catalog
from ottla.connect.connectors.cdc.postgres.chunks import PostgresChunks
from ottla.connect.connectors.cdc.postgres.config import POSTGRES_CONFIG
from ottla.connect.connectors.cdc.postgres.connection import Server
from ottla.connect.connectors.cdc.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Truncate,
    Update,
    format_lsn,
    parse_lsn,
)
from ottla.connect.connectors.cdc.postgres.slots import Slot, SlotState, ensure_publication
from ottla.connect.connectors.cdc.postgres.snapshot import Snapshot
from ottla.connect.connectors.cdc.postgres.source_info import SOURCE, SourceInfo, position_from
from ottla.connect.connectors.cdc.postgres.stream import Change, Position, Stream
from ottla.connect.connectors.cdc.snapshot_rows import SnapshotRow
from ottla.connect.connectors.cdc.snapshots import Key, SnapshotProgress
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError

#: Position, last commit, and counts of the current transaction.
_State = tuple[Position, int | None, Mapping[str, Any]]


class PostgresCapture:
    config: ClassVar[ConfigDef] = POSTGRES_CONFIG
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    def __init__(
        self, settings: Mapping[str, Any], config: Config, heartbeat: Heartbeat, events: Events
    ) -> None:
        self._settings = settings
        self._heartbeat = heartbeat
        self._events = events
        self._transactions = events.transactions
        self._filters = Filters(settings, config, "schema")
        self._server = Server(settings)
        self._slot = Slot(self._server, settings)
        self._slot_state: SlotState | None = None
        self._source = SourceInfo(settings["topic.prefix"], settings["database.dbname"])
        self._control: psycopg.Connection[Any] | None = None
        self._stream: Stream | None = None
        self._tables: dict[int, CapturedTable | None] = {}
        self._begin = Begin(0, 0, 0)
        self._last_commit: int | None = None
        self._signal_table: str = settings["signal.data.collection"]
        self.reached_end = False
        self.chunks = PostgresChunks(
            self._open_catalog,
            lambda: self.position.commit_end,
            self._source,
            settings["incremental.snapshot.chunk.size"],
            self._signal_table,
        )
        self._snapshot_time = self._snapshot_xid = 0
        #: Transaction ends: confirmed by the slot, committed by the task, and offered with the last record.
        self._confirmed = self._committed = self._offered = 0
        #: End of the range that the last empty read covered.
        self._seen_end: int | None = None
        self.position = Position(0)

    def _open(self) -> psycopg.Connection[Any]:
        if self._control is None or self._control.closed:
            self._control = self._server.connect()
            self._catalog = Catalog(self._control, self._settings, self._filters, SOURCE)
            self._tables.clear()
        return self._control

    def _open_catalog(self) -> tuple[psycopg.Connection[Any], Catalog]:
        return self._open(), self._catalog

    def prepare(self, offset: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        control = self._open()
        state = self._slot_state = self._slot.check(control)
        ensure_publication(self._server, control, self._settings, self._catalog.tables())
        if offset is None:
            return None
        position = position_from(offset)
        if state is None:
            if self._settings["snapshot.mode"].lower() == "when_needed":
                return None
            raise ConnectError(
                f"Replication slot {self._slot.name!r} does not exist any more, so changes since the last offset "
                f"({format_lsn(position.commit_end)}) are lost: reset the connector's offsets to begin with a new "
                "snapshot, or set snapshot.mode=when_needed."
            )
        if state.confirmed > position.commit_end:
            raise ConnectError(
                f"Replication slot {self._slot.name!r} was read by somebody else up to "
                f"{format_lsn(state.confirmed)}, but this connector's offset is {format_lsn(position.commit_end)}: "
                "changes in between are lost to it. Reset the connector's offsets to begin with a new snapshot, and "
                "give each connector a slot.name of its own."
            )
        self.position, self._confirmed = position, state.confirmed
        if self._transactions is not None and position.changes > 0:
            self._transactions.restore(offset)
        return offset

    def go_to_end(self) -> None:
        state = self._slot_state
        self.position = Position(state.confirmed if state is not None else self._new_slot())

    def _new_slot(self) -> int:
        created = self._slot.create()
        created.holder.finish()
        return created.lsn

    # The snapshot

    def take_snapshot(self, progress: SnapshotProgress, *, begins: bool) -> Snapshot:
        control = self._open()
        if self._slot.state(control) is None:
            exported = self._slot.create()
        else:
            exported = self._slot.snapshot_only()
        size = self._settings["snapshot.fetch.size"]
        snapshot = Snapshot(self._server, self._catalog, exported, progress, size, self._signal_table)
        self._snapshot_time, self._snapshot_xid = snapshot.time, snapshot.xid
        if begins:
            self.position = Position(snapshot.at)
            self._committed = snapshot.at
        return snapshot

    def of_row(self, row: SnapshotRow) -> tuple[Struct, dict[str, Any]]:
        lsn, micros, xid = self.position.commit_end, self._snapshot_time, self._snapshot_xid
        source = self._source.struct(row.table, micros, row.marker, None, lsn, xid)
        return source, {"lsn": lsn, "txId": xid, "ts_usec": micros}

    # The stream

    def read(self) -> Iterator[Item]:
        self._open()
        self._confirm()
        self._seen_end = self._current_end() if self._heartbeat.is_due else None
        if self._stream is None:
            self._stream = Stream(self._server, self._slot, self._settings)
        self.reached_end = False
        for item in self._stream.read(self.position):
            if isinstance(item, Change):
                records = self._of_change_in_transaction(item)
                if records:
                    self._seen_end = None
                yield Changed(records, item.number, self._signal(item))
            elif isinstance(item, Begin):
                self._begin = item
                self.chunks.streamed.append(item.xid)
                if self._transactions is not None:
                    id = f"{item.xid}:{self._stream.begin_lsn}"
                    self._transactions.begin(id, item.time, continued=self.position.changes > 0)
                yield Began()
            elif isinstance(item, Commit):
                self.position = Position(item.end_lsn)
                self._last_commit = item.end_lsn
                yield Ended({"lsn_commit": item.end_lsn}, item.end_lsn, self._end_of_transaction(item))
            else:
                self._tables[item.oid] = self._catalog.captured(item)
        self.reached_end = self._stream.reached_end

    def _of_change_in_transaction(self, change: Change) -> Sequence[SourceRecord]:
        if self._transactions is None:
            return self._of_change(change)
        self._transactions.at(f"{self._begin.xid}:{change.lsn}")
        is_first = self._transactions.is_empty
        return self._transactions.opened(self._of_change(change), is_first=is_first)

    def _end_of_transaction(self, commit: Commit) -> Sequence[SourceRecord]:
        if self._transactions is None:
            return ()
        lsn = commit.end_lsn
        offset = {"lsn_proc": lsn, "lsn_commit": lsn, "lsn": lsn, "changes": 0}
        return self._transactions.end(f"{self._begin.xid}:{lsn}", offset)

    def _signal(self, change: Change) -> Signal | None:
        message = change.message
        if not self._signal_table or not isinstance(message, Insert):
            return None
        table = self._tables.get(message.relation)
        if table is None or table.full_name != self._signal_table or len(message.new) < 3:
            return None
        texts = [each.decode() if isinstance(each, bytes) else "" for each in message.new[:3]]
        return Signal(texts[0], texts[1], texts[2], (self._begin.commit_lsn, change.number))

    def _of_change(self, change: Change) -> list[SourceRecord]:
        message = change.message
        if isinstance(message, Truncate):
            return [record for oid in message.relations for record in self._of_truncate(oid, change)]
        table = self._tables.get(message.relation)
        if table is None:
            return []
        offset = self._offset(change)
        begin = self._begin
        source = self._source.struct(table, begin.time, "false", self._last_commit, change.lsn, begin.xid)
        if isinstance(message, Insert):
            return self._events.insert(table, message.new, source, offset)
        if isinstance(message, Update):
            new: Row = message.new
            if message.old is not None:
                old = message.old
                new = [old[n] if value is UNCHANGED else value for n, value in enumerate(new)]
            return self._events.update(table, message.old, new, source, offset, old_key=message.old_key)
        assert isinstance(message, Delete)
        gone = message.old if message.old is not None else message.old_key
        return self._events.delete(table, gone or [], source, offset)

    def _of_truncate(self, oid: int, change: Change) -> list[SourceRecord]:
        table = self._tables.get(oid)
        if table is None:
            return []
        source = self._source.struct(
            table, self._begin.time, "false", self._last_commit, change.lsn, self._begin.xid
        )
        return self._events.truncate(table, source, self._offset(change))

    def _offset(self, change: Change) -> dict[str, Any]:
        return {
            "lsn_proc": change.lsn,
            "messageType": _TYPES[type(change.message)],
            "lsn_commit": self.position.commit_end,
            "lsn": change.lsn,
            "txId": self._begin.xid,
            "ts_usec": self._begin.time,
            "changes": change.number,
        }

    def committed_at(self) -> int:
        return self._begin.commit_lsn

    def key(self, table: CapturedTable, row: Row) -> Key:
        return tuple(column.read(row[column.position]) for column in table.key_columns)

    # Commits

    def _current_end(self) -> int:
        """Return the end of the log. A read that starts now sees every relevant change before it."""
        row = self._open().execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def heartbeat_offset(self) -> dict[str, Any]:
        end, self._seen_end = self._seen_end, None
        if end is not None and end > self.position.commit_end and self.position.changes == 0:
            self.position = Position(end)
        lsn = self.position.commit_end
        return {"lsn_proc": lsn, "lsn_commit": lsn, "lsn": lsn, "changes": self.position.changes}

    def state(self) -> _State:
        counts = {} if self._transactions is None else self._transactions.state()
        return self.position, self._last_commit, counts

    def restore(self, state: _State) -> None:
        self.position, self._last_commit, counts = state
        if self._transactions is not None:
            self._transactions.restore(counts)

    def offered(self, offset: Mapping[str, Any]) -> None:
        self._offered = offset["lsn_commit"]

    def committed(self) -> None:
        """Mark the offered records as committed.

        `read` notifies PostgreSQL later, because each notification costs a log scan. It reports only
        positions from offsets. Transactions without records leave no offset, and a slot ahead of its offset would look
        as if another client had consumed it.
        """
        self._committed = max(self._committed, self._offered)

    def _confirm(self) -> None:
        if self._committed > self._confirmed and self._committed <= self.position.commit_end:
            self._slot.advance(self._open(), self._committed)
            self._confirmed = self._committed

    def finish(self) -> None:
        if self._control is not None and not self._control.closed:
            self._confirm()

    def explained(self, error: Exception, doing: str) -> ConnectError:
        return self._server.explained(error, doing)

    def close(self) -> None:
        for each in (self._stream, self._control):
            if each is not None:
                with contextlib.suppress(psycopg.Error):
                    each.close()
        self._stream = self._control = None


_TYPES = {Insert: "INSERT", Update: "UPDATE", Delete: "DELETE", Truncate: "TRUNCATE"}
