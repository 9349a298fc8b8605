"""The task: a snapshot where one is due, then the stream. Every record says where it goes on.

Invariant: `_position` (or `_progress`, while there is a snapshot) is behind everything that `poll` has returned, so
that a connection may be lost and opened again at any time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from ottla.spark.connect.api import Config, SourceTask, SourceTaskContext
from ottla.spark.connect.connectors.cdc.envelope import CapturedTable, Events, Row
from ottla.spark.connect.connectors.cdc.filters import Filters
from ottla.spark.connect.connectors.cdc.heartbeat import Heartbeat
from ottla.spark.connect.connectors.cdc.postgres.catalog import Catalog
from ottla.spark.connect.connectors.cdc.postgres.config import POSTGRES_CONFIG
from ottla.spark.connect.connectors.cdc.postgres.connection import Server
from ottla.spark.connect.connectors.cdc.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
    format_lsn,
    parse_lsn,
)
from ottla.spark.connect.connectors.cdc.postgres.slots import Slot, ensure_publication
from ottla.spark.connect.connectors.cdc.postgres.snapshot import Snapshot
from ottla.spark.connect.connectors.cdc.postgres.source_info import SOURCE, SourceInfo, position_from
from ottla.spark.connect.connectors.cdc.postgres.stream import Change, Position, Stream
from ottla.spark.connect.connectors.cdc.snapshots import Shown, SnapshotProgress, later_from
from ottla.spark.connect.data.record import SourceRecord
from ottla.spark.connect.errors import ConnectError


class PostgresTask(SourceTask):
    _control: psycopg.Connection[Any] | None = None
    _stream: Stream | None = None
    _snapshot: Snapshot | None = None

    def start(self, config: Config, context: SourceTaskContext) -> None:
        settings = POSTGRES_CONFIG.parse(config)
        self._settings = settings
        self._mode = settings["snapshot.mode"].lower()
        prefix = settings["topic.prefix"]
        self._partition = {"server": prefix}
        self._filters = Filters(settings, config, "schema")
        self._server = Server(settings)
        self._slot = Slot(self._server, settings)
        self._source = SourceInfo(prefix, settings["database.dbname"])
        skipped = [] if settings["skipped.operations"] == ["none"] else settings["skipped.operations"]
        self._events = Events(
            self._partition, tombstones=settings["tombstones.on.delete"], skipped=skipped, keep=self._keep
        )
        self._heartbeat = Heartbeat(settings, self._partition)
        self._tables: dict[int, CapturedTable | None] = {}
        self._changes: Iterator[Begin | Commit | Relation | Change] | None = None
        self._held: list[SourceRecord] = []
        self._begin = Begin(0, 0, 0)
        self._last_commit: int | None = None
        self._idle_until = 0.0
        #: Ends of transactions: what the slot has confirmed, what is committed, what the last record has offered.
        self._confirmed = self._committed = self._offered = 0
        self._position = Position(0)
        self._shown = Shown([])
        #: As offsets keep it, until the stream has passed it.
        self._later: str | None = None
        self._progress: SnapshotProgress | None = None
        self._is_finished = False
        try:
            self._open()
            self._prepare(context.offset(self._partition))
        except psycopg.Error as error:
            self._abandon()
            raise self._server.explained(error, "prepare the capture") from error
        except ConnectError:
            self._abandon()
            raise

    def _open(self) -> psycopg.Connection[Any]:
        if self._control is None or self._control.closed:
            self._control = self._server.connect()
            self._catalog = Catalog(self._control, self._settings, self._filters, SOURCE)
            self._tables.clear()
        return self._control

    def _prepare(self, offset: Mapping[str, Any] | None) -> None:
        control = self._open()
        state = self._slot.check(control)
        ensure_publication(self._server, control, self._settings, self._catalog.tables())
        if offset is not None and self._mode == "when_needed" and state is None:
            offset = None
        if offset is None or (self._mode == "always" and "snapshot" not in offset):
            if self._mode in ("never", "no_data"):
                self._position = Position(state.confirmed if state is not None else self._new_slot())
            else:
                self._progress = SnapshotProgress()
                self._take_snapshot()
            return
        position = position_from(offset)
        if state is None:
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
        self._position, self._confirmed = position, state.confirmed
        if "snapshot" in offset and not offset.get("snapshot_completed"):
            self._progress = SnapshotProgress.from_offset(offset)
            self._take_snapshot()
            return
        self._shown = Shown(later_from(offset.get("snapshot_later")))
        self._later = offset.get("snapshot_later")
        self._is_finished = self._mode == "initial_only"

    def _new_slot(self) -> int:
        created = self._slot.create()
        created.holder.finish()
        return created.lsn

    # The snapshot

    def _take_snapshot(self) -> None:
        """From its beginning, or what is left of it."""
        control = self._open()
        assert self._progress is not None
        begins = self._progress.table is None and not self._progress.later
        if self._slot.state(control) is None:
            exported = self._slot.create()
        else:
            exported = self._slot.snapshot_only()
        size = self._settings["snapshot.fetch.size"]
        self._snapshot = Snapshot(self._server, self._catalog, exported, self._progress, size)
        if begins:
            # Nothing has been published: the stream begins where this snapshot was taken.
            self._position = Position(exported.lsn)
            self._committed = exported.lsn
        else:
            self._progress.resume_at(exported.lsn, self._snapshot.table_names)

    def _poll_snapshot(self) -> Sequence[SourceRecord]:
        snapshot, progress = self._snapshot, self._progress
        assert snapshot is not None
        assert progress is not None
        records = []
        for row in snapshot.read(self._settings["max.batch.size"]):
            name = f"{row.table.schema_name}.{row.table.name}"
            source = self._source.struct(
                row.table, snapshot.time, row.marker, None, self._position.commit_end, snapshot.xid
            )
            progress.table, progress.key = name, row.key
            offset: dict[str, Any] = {
                "lsn": self._position.commit_end,
                "txId": snapshot.xid,
                "ts_usec": snapshot.time,
                "snapshot": "INITIAL",
                "snapshot_completed": row.marker == "last",
            }
            if row.marker == "last":
                if progress.later:
                    offset["snapshot_later"] = progress.later_json()
            else:
                offset.update(progress.to_offset())
            records.append(self._events.read(row.table, row.values, source, offset))
        if not records or records[-1].source_offset["snapshot_completed"]:
            snapshot.close()
            self._snapshot = None
            self._shown = Shown(progress.later)
            self._later = progress.later_json() if progress.later else None
            self._progress = None
            self._is_finished = self._mode == "initial_only"
        return records

    # The stream

    def _poll_stream(self) -> Sequence[SourceRecord]:
        most = self._settings["max.batch.size"]
        records, self._held = self._held, []
        began = 0
        if self._changes is None:
            if time.monotonic() < self._idle_until:
                return self._beat(None)
            self._open()
            self._confirm()
            end = self._heartbeat.is_due and self._current_end()
            if self._stream is None:
                self._stream = Stream(self._server, self._slot, self._settings)
            self._changes = self._stream.read(self._position)
        else:
            end = None
        for item in self._changes:
            if isinstance(item, Change):
                records += self._of_change(item)
                if len(records) >= most:
                    if began > 0:
                        # The transaction goes into the next batch as a whole, if it fits.
                        records, self._held = records[:began], records[began:]
                    else:
                        self._position = Position(self._position.commit_end, item.number)
                    return records
            elif isinstance(item, Begin):
                self._begin, began = item, len(records)
            elif isinstance(item, Commit):
                self._end_transaction(item, records[began:])
                began = len(records)
                if len(records) >= most:
                    return records
            else:
                self._tables[item.oid] = self._catalog.captured(item)
        self._changes = None
        if not records:
            self._idle_until = time.monotonic() + self._settings["poll.interval.ms"] / 1000
            return self._beat(end or None)
        return records

    def _end_transaction(self, commit: Commit, records: Sequence[SourceRecord]) -> None:
        """The last record's offset is behind the whole transaction."""
        self._position = Position(commit.end_lsn)
        self._last_commit = commit.end_lsn
        if self._shown.until is not None and commit.end_lsn >= self._shown.until:
            self._shown, self._later = Shown([]), None
        if records:
            last = records[-1].source_offset
            records[-1].source_offset = {**last, "lsn_commit": commit.end_lsn, "changes": 0}

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
            return self._events.insert(table, message.new, source, None, offset)
        if isinstance(message, Update):
            new: Row = message.new
            if message.old is not None:
                old = message.old
                new = [old[n] if value is UNCHANGED else value for n, value in enumerate(new)]
            return self._events.update(table, message.old, new, source, None, offset, old_key=message.old_key)
        assert isinstance(message, Delete)
        gone = message.old if message.old is not None else message.old_key
        return self._events.delete(table, gone or [], source, None, offset)

    def _of_truncate(self, oid: int, change: Change) -> list[SourceRecord]:
        table = self._tables.get(oid)
        if table is None:
            return []
        source = self._source.struct(
            table, self._begin.time, "false", self._last_commit, change.lsn, self._begin.xid
        )
        return self._events.truncate(table, source, None, self._offset(change))

    def _offset(self, change: Change) -> dict[str, Any]:
        offset = {
            "lsn_proc": change.lsn,
            "messageType": _TYPES[type(change.message)],
            "lsn_commit": self._position.commit_end,
            "lsn": change.lsn,
            "txId": self._begin.xid,
            "ts_usec": self._begin.time,
            "changes": change.number,
        }
        if self._later is not None:
            offset["snapshot_later"] = self._later
        return offset

    def _keep(self, table: CapturedTable, row: Row) -> bool:
        """Whether the snapshot has not shown this change already."""
        if self._shown.until is None:
            return True
        key = tuple(column.read(row[column.position]) for column in table.key_columns)
        name = f"{table.schema_name}.{table.name}"
        return not self._shown.has(name, key or None, self._begin.commit_lsn)

    # What is done

    def _current_end(self) -> int:
        """Everything before that is of interest will be seen by a read that begins now."""
        row = self._open().execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return parse_lsn(row[0])

    def _beat(self, end: int | None) -> Sequence[SourceRecord]:
        if not self._heartbeat.is_due:
            return []
        if end is not None and end > self._position.commit_end and self._position.changes == 0:
            self._position = Position(end)
        lsn = self._position.commit_end
        offset: dict[str, Any] = {"lsn_proc": lsn, "lsn_commit": lsn, "lsn": lsn}
        offset["changes"] = self._position.changes
        if self._later is not None:
            offset["snapshot_later"] = self._later
        return [self._heartbeat.record(offset)]

    def commit(self) -> None:
        """PostgreSQL is told before the slot is read again: telling it costs a walk through its log.

        It is told of what offsets say only. Transactions that gave no records leave no offset, and a slot that is ahead
        of its offset looks as if somebody else had read it.
        """
        self._committed = max(self._committed, self._offered)

    def _confirm(self) -> None:
        if self._committed > self._confirmed and self._committed <= self._position.commit_end:
            self._slot.advance(self._open(), self._committed)
            self._confirmed = self._committed

    # Calls

    def poll(self) -> Sequence[SourceRecord]:
        if self._is_finished:
            return []
        before = self._position, self._last_commit, self._shown, self._later
        try:
            if self._progress is not None:
                if self._snapshot is None:
                    self._take_snapshot()
                return self._poll_snapshot()
            records = self._poll_stream()
            if records:
                self._offered = records[-1].source_offset["lsn_commit"]
            return records
        except (psycopg.Error, ConnectError) as error:
            self._abandon()
            if self._progress is None:
                # What was read and not returned is read again.
                self._position, self._last_commit, self._shown, self._later = before
            if isinstance(error, ConnectError):
                raise
            raise self._server.explained(error, "capture changes") from error

    def _abandon(self) -> None:
        """The next poll opens everything again."""
        self._changes, self._held = None, []
        for each in (self._stream, self._snapshot, self._control):
            if each is not None:
                with contextlib.suppress(psycopg.Error):
                    each.close()
        self._stream = self._snapshot = self._control = None

    def stop(self) -> None:
        if self._control is not None and not self._control.closed and self._progress is None:
            with contextlib.suppress(psycopg.Error, ConnectError):
                self._confirm()
        self._abandon()


_TYPES = {Insert: "INSERT", Update: "UPDATE", Delete: "DELETE", Truncate: "TRUNCATE"}
