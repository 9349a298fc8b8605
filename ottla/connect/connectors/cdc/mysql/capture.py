"""Captures the changes of a MariaDB or MySQL server from its binary log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pymysql

from ottla.connect.api import Config
from ottla.connect.config.config_def import ConfigDef
from ottla.connect.connectors.cdc.capture import Began, Changed, Ended, Item
from ottla.connect.connectors.cdc.envelope import CapturedTable, Events, Row
from ottla.connect.connectors.cdc.filters import Filters
from ottla.connect.connectors.cdc.heartbeat import Heartbeat
from ottla.connect.connectors.cdc.mysql.catalog import Catalog
from ottla.connect.connectors.cdc.mysql.columns import from_log
from ottla.connect.connectors.cdc.mysql.config import MYSQL_CONFIG
from ottla.connect.connectors.cdc.mysql.connection import Server, binlog_position, check_server
from ottla.connect.connectors.cdc.mysql.snapshot import Snapshot
from ottla.connect.connectors.cdc.mysql.source_info import SourceInfo, position_from
from ottla.connect.connectors.cdc.mysql.stream import (
    Change,
    End,
    Position,
    Stream,
    Transaction,
    Truncated,
)
from ottla.connect.connectors.cdc.snapshot_rows import SnapshotRow
from ottla.connect.connectors.cdc.snapshots import Key, SnapshotProgress
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError


class MySqlCapture:
    config: ClassVar[ConfigDef] = MYSQL_CONFIG
    errors: ClassVar[tuple[type[Exception], ...]] = (pymysql.MySQLError, OSError)
    product: ClassVar[str] = "mysql"

    chunks = None
    reached_end = False

    def __init__(
        self, settings: Mapping[str, Any], config: Config, heartbeat: Heartbeat, events: Events
    ) -> None:
        self._settings = settings
        self._events = events
        self._filters = Filters(settings, config, "database")
        self._server = Server(settings, self.product)
        self._source = SourceInfo(settings["topic.prefix"], self.product)
        self._control: Any = None
        self.stream: Stream | None = None
        #: Cached per transaction, by the log's description of the table.
        self._tables: dict[tuple[Any, ...], CapturedTable | None] = {}
        self._last_table: tuple[Any, CapturedTable | None] = (None, None)
        self._transaction = Transaction(None, 0, 0)
        self._snapshot_time = 0
        self.position = Position("", 4)

    def _open(self) -> Any:
        if self._control is None or not self._control.open:
            self._control = self._server.connect()
            self._is_mariadb = check_server(self._control, self._server)
            self._catalog = Catalog(
                self._control, self._settings, self._filters, self._source.schema, is_mariadb=self._is_mariadb
            )
            self._tables.clear()
        return self._control

    def prepare(self, offset: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        self._open()
        if offset is not None:
            self.position = position_from(offset)
        return offset

    def go_to_end(self) -> None:
        self.position = Position(*binlog_position(self._open()))

    # The snapshot

    def take_snapshot(self, progress: SnapshotProgress, *, begins: bool) -> Snapshot:
        self._open()
        size = self._settings["snapshot.fetch.size"]
        snapshot = Snapshot(self._server, self._catalog, progress, size, is_mariadb=self._is_mariadb)
        self._snapshot_time = snapshot.time
        if begins:
            self.position = Position(*snapshot.position)
        return snapshot

    def of_row(self, row: SnapshotRow) -> tuple[Struct, dict[str, Any]]:
        at = self.position
        moment = Transaction(None, self._snapshot_time, 0)
        source = self._source.struct(row.table, moment, row.marker, at.file, at.pos, 0)
        return source, {"ts_sec": self._snapshot_time // 1_000_000, "file": at.file, "pos": at.pos}

    # The stream

    def read(self) -> Iterator[Item]:
        self._open()
        if self.stream is None:
            self.stream = Stream(self._server, self._settings)
        for item in self.stream.read(self.position):
            if isinstance(item, Change):
                yield Changed(self._of_change(item), item.number)
            elif isinstance(item, Truncated):
                yield Changed(self._of_truncate(item), item.number)
            elif isinstance(item, Transaction):
                self._transaction = item
                yield Began()
            else:
                yield self._end_transaction(item)

    def _end_transaction(self, end: End) -> Ended:
        self.position = Position(end.file, end.pos)
        if end.changes_tables:
            self._tables.clear()
        return Ended({"file": end.file, "pos": end.pos}, [end.file, end.pos])

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
            table, self._transaction, "false", self.position.file, change.pos, change.row
        )
        if change.op == "c":
            assert change.after is not None
            return self._events.insert(table, change.after, source, offset)
        assert change.before is not None
        if change.op == "d":
            return self._events.delete(table, change.before, source, offset)
        assert change.after is not None
        return self._events.update(table, change.before, change.after, source, offset)

    def _of_truncate(self, truncated: Truncated) -> list[SourceRecord]:
        if not self._filters.has_table(truncated.database, truncated.table):
            return []
        table, facts = self._catalog.described(truncated.database, truncated.table)
        if not facts:
            return []
        source = self._source.struct(table, self._transaction, "false", self.position.file, truncated.pos, 0)
        return self._events.truncate(table, source, self._offset(truncated))

    def _offset(self, change: Change | Truncated) -> dict[str, Any]:
        offset: dict[str, Any] = {
            "ts_sec": self._transaction.time // 1_000_000,
            "file": self.position.file,
            "pos": self.position.pos,
            "server_id": self._transaction.server_id,
            "changes": change.number,
        }
        if self._transaction.gtid is not None:
            offset["gtids"] = self._transaction.gtid
        return offset

    def committed_at(self) -> list[Any]:
        return [self.position.file, self._transaction.pos]

    def key(self, table: CapturedTable, row: Row) -> Key:
        return tuple(row[column.position] for column in table.key_columns)

    def heartbeat_offset(self) -> dict[str, Any]:
        at = self.position
        return {"file": at.file, "pos": at.pos, "changes": at.changes}

    # Commits: nothing to do, because the server purges its log itself

    def state(self) -> Position:
        return self.position

    def restore(self, state: Position) -> None:
        self.position = state

    def offered(self, offset: Mapping[str, Any]) -> None: ...

    def committed(self) -> None: ...

    def finish(self) -> None: ...

    def explained(self, error: Exception, doing: str) -> ConnectError:
        return self._server.explained(error, doing)

    def close(self) -> None:
        for each in (self.stream, self._control):
            if each is not None:
                with contextlib.suppress(*self.errors):
                    each.close()
        self.stream = self._control = None


class MariaDbCapture(MySqlCapture):
    product = "mariadb"
