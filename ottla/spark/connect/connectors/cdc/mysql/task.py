"""The task: a snapshot where one is due, then the stream. Every record says where it goes on.

Invariant: `_position` (or `_progress`, while there is a snapshot) is behind everything that `poll` has returned, so
that a connection may be lost and opened again at any time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pymysql

from ottla.spark.connect.api import Config, SourceTask, SourceTaskContext
from ottla.spark.connect.connectors.cdc.envelope import CapturedTable, Events, Row
from ottla.spark.connect.connectors.cdc.filters import Filters
from ottla.spark.connect.connectors.cdc.heartbeat import Heartbeat
from ottla.spark.connect.connectors.cdc.mysql.catalog import Catalog
from ottla.spark.connect.connectors.cdc.mysql.columns import from_log
from ottla.spark.connect.connectors.cdc.mysql.config import MYSQL_CONFIG
from ottla.spark.connect.connectors.cdc.mysql.connection import Server, binlog_position, check_server
from ottla.spark.connect.connectors.cdc.mysql.snapshot import Snapshot
from ottla.spark.connect.connectors.cdc.mysql.source_info import SourceInfo, position_from
from ottla.spark.connect.connectors.cdc.mysql.stream import (
    Change,
    End,
    Item,
    Position,
    Stream,
    Transaction,
    Truncated,
)
from ottla.spark.connect.connectors.cdc.snapshots import Shown, SnapshotProgress, later_from
from ottla.spark.connect.data.record import SourceRecord
from ottla.spark.connect.errors import ConnectError


class MySqlTask(SourceTask):
    product = "mysql"
    _control: Any = None
    _stream: Stream | None = None
    _snapshot: Snapshot | None = None

    def start(self, config: Config, context: SourceTaskContext) -> None:
        settings = MYSQL_CONFIG.parse(config)
        self._settings = settings
        self._mode = settings["snapshot.mode"].lower()
        self._partition = {"server": settings["topic.prefix"]}
        self._filters = Filters(settings, config, "database")
        self._server = Server(settings, self.product)
        self._source = SourceInfo(settings["topic.prefix"], self.product)
        skipped = [] if settings["skipped.operations"] == ["none"] else settings["skipped.operations"]
        self._events = Events(
            self._partition, tombstones=settings["tombstones.on.delete"], skipped=skipped, keep=self._keep
        )
        self._heartbeat = Heartbeat(settings, self._partition)
        #: By what the log says of a table, with each transaction anew.
        self._tables: dict[tuple[Any, ...], CapturedTable | None] = {}
        self._last_table: tuple[Any, CapturedTable | None] = (None, None)
        self._items: Iterator[Item] | None = None
        self._held: list[SourceRecord] = []
        self._transaction = Transaction(None, 0, 0)
        self._idle_until = 0.0
        self._position = Position("", 4)
        self._shown = Shown([])
        #: As offsets keep it, until the stream has passed it.
        self._later: str | None = None
        self._progress: SnapshotProgress | None = None
        self._is_finished = False
        try:
            self._prepare(context.offset(self._partition))
        except pymysql.MySQLError as error:
            self._abandon()
            raise self._server.explained(error, "prepare the capture") from error
        except ConnectError:
            self._abandon()
            raise

    def _open(self) -> Any:
        if self._control is None or not self._control.open:
            self._control = self._server.connect()
            self._is_mariadb = check_server(self._control, self._server)
            self._catalog = Catalog(
                self._control, self._settings, self._filters, self._source.schema, is_mariadb=self._is_mariadb
            )
            self._tables.clear()
        return self._control

    def _prepare(self, offset: Mapping[str, Any] | None) -> None:
        control = self._open()
        if offset is None or (self._mode == "always" and "snapshot" not in offset):
            if self._mode in ("never", "no_data"):
                self._position = Position(*binlog_position(control))
            else:
                self._progress = SnapshotProgress()
                self._take_snapshot()
            return
        self._position = position_from(offset)
        if "snapshot" in offset and not offset.get("snapshot_completed"):
            self._progress = SnapshotProgress.from_offset(offset)
            self._take_snapshot()
            return
        self._later = offset.get("snapshot_later")
        self._shown = Shown(later_from(self._later))
        self._is_finished = self._mode == "initial_only"

    # The snapshot

    def _take_snapshot(self) -> None:
        """From its beginning, or what is left of it."""
        self._open()
        assert self._progress is not None
        begins = self._progress.table is None and not self._progress.later
        size = self._settings["snapshot.fetch.size"]
        self._snapshot = Snapshot(
            self._server, self._catalog, self._progress, size, is_mariadb=self._is_mariadb
        )
        if begins:
            # Nothing has been published: the stream begins where this snapshot was taken.
            self._position = Position(*self._snapshot.position)
        else:
            self._progress.resume_at(list(self._snapshot.position), self._snapshot.table_names)

    def _poll_snapshot(self) -> Sequence[SourceRecord]:
        snapshot, progress = self._snapshot, self._progress
        assert snapshot is not None
        assert progress is not None
        records = []
        at = self._position
        moment = Transaction(None, snapshot.time, 0)
        for row in snapshot.read(self._settings["max.batch.size"]):
            source = self._source.struct(row.table, moment, row.marker, at.file, at.pos, 0)
            progress.table, progress.key = f"{row.table.schema_name}.{row.table.name}", row.key
            offset: dict[str, Any] = {
                "ts_sec": snapshot.time // 1_000_000,
                "file": at.file,
                "pos": at.pos,
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
        if self._items is None:
            if time.monotonic() < self._idle_until:
                return self._beat()
            self._open()
            if self._stream is None:
                self._stream = Stream(self._server, self._settings)
            self._items = self._stream.read(self._position)
        for item in self._items:
            if isinstance(item, Change | Truncated):
                records += self._of_change(item) if isinstance(item, Change) else self._of_truncate(item)
                if len(records) >= most:
                    if began > 0:
                        # The transaction goes into the next batch as a whole, if it fits.
                        records, self._held = records[:began], records[began:]
                    else:
                        self._position = self._position._replace(changes=item.number)
                    return records
            elif isinstance(item, Transaction):
                self._transaction, began = item, len(records)
            else:
                self._end_transaction(item, records[began:])
                began = len(records)
                if len(records) >= most:
                    return records
        self._items = None
        if not records:
            self._idle_until = time.monotonic() + self._settings["poll.interval.ms"] / 1000
            return self._beat()
        return records

    def _end_transaction(self, end: End, records: Sequence[SourceRecord]) -> None:
        """The last record's offset is behind the whole transaction."""
        self._position = Position(end.file, end.pos)
        if end.changes_tables:
            self._tables.clear()
        if self._shown.until is not None and [end.file, end.pos] >= self._shown.until:
            self._shown, self._later = Shown([]), None
        if records:
            last = records[-1].source_offset
            records[-1].source_offset = {**last, "file": end.file, "pos": end.pos, "changes": 0}

    def _captured(self, table: Any) -> CapturedTable | None:
        if self._last_table[0] is table:
            return self._last_table[1]
        forms = tuple(map(from_log, table.columns))
        known = (table.schema, table.table, forms)
        if known not in self._tables:
            self._tables[known] = self._catalog.captured(table, forms)
        self._last_table = table, self._tables[known]
        return self._tables[known]

    def _of_change(self, change: Change) -> list[SourceRecord]:
        table = self._captured(change.table)
        if table is None:
            return []
        offset = self._offset(change)
        source = self._source.struct(
            table, self._transaction, "false", self._position.file, change.pos, change.row
        )
        if change.op == "c":
            assert change.after is not None
            return self._events.insert(table, change.after, source, None, offset)
        assert change.before is not None
        if change.op == "d":
            return self._events.delete(table, change.before, source, None, offset)
        assert change.after is not None
        return self._events.update(table, change.before, change.after, source, None, offset)

    def _of_truncate(self, truncated: Truncated) -> list[SourceRecord]:
        if not self._filters.has_table(truncated.database, truncated.table):
            return []
        table, facts = self._catalog.described(truncated.database, truncated.table)
        if not facts:
            return []
        source = self._source.struct(table, self._transaction, "false", self._position.file, truncated.pos, 0)
        return self._events.truncate(table, source, None, self._offset(truncated))

    def _offset(self, change: Change | Truncated) -> dict[str, Any]:
        offset: dict[str, Any] = {
            "ts_sec": self._transaction.time // 1_000_000,
            "file": self._position.file,
            "pos": self._position.pos,
            "server_id": self._transaction.server_id,
            "changes": change.number,
        }
        if self._transaction.gtid is not None:
            offset["gtids"] = self._transaction.gtid
        if self._later is not None:
            offset["snapshot_later"] = self._later
        return offset

    def _keep(self, table: CapturedTable, row: Row) -> bool:
        """Whether the snapshot has not shown this change already."""
        if self._shown.until is None:
            return True
        key = tuple(row[column.position] for column in table.key_columns)
        name = f"{table.schema_name}.{table.name}"
        return not self._shown.has(name, key or None, [self._position.file, self._transaction.pos])

    def _beat(self) -> Sequence[SourceRecord]:
        if not self._heartbeat.is_due:
            return []
        at = self._position
        offset: dict[str, Any] = {"file": at.file, "pos": at.pos, "changes": at.changes}
        if self._later is not None:
            offset["snapshot_later"] = self._later
        return [self._heartbeat.record(offset)]

    # Calls

    def poll(self) -> Sequence[SourceRecord]:
        if self._is_finished:
            return []
        before = self._position, self._shown, self._later
        try:
            if self._progress is not None:
                if self._snapshot is None:
                    self._take_snapshot()
                return self._poll_snapshot()
            return self._poll_stream()
        except (pymysql.MySQLError, OSError, ConnectError) as error:
            self._abandon()
            if self._progress is None:
                # What was read and not returned is read again.
                self._position, self._shown, self._later = before
            if isinstance(error, ConnectError):
                raise
            raise self._server.explained(error, "capture changes") from error

    def _abandon(self) -> None:
        """The next poll opens everything again."""
        self._items, self._held = None, []
        for each in (self._stream, self._snapshot, self._control):
            if each is not None:
                with contextlib.suppress(pymysql.MySQLError, OSError):
                    each.close()
        self._stream = self._snapshot = self._control = None

    def stop(self) -> None:
        self._abandon()


class MariaDbTask(MySqlTask):
    product = "mariadb"
