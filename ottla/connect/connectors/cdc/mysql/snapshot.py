"""Reads the captured tables as of one binary log position."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from ottla.connect.connectors.cdc.mysql.catalog import ORDERED, Catalog
from ottla.connect.connectors.cdc.mysql.connection import Server, binlog_position, rows_of
from ottla.connect.connectors.cdc.snapshot_rows import SnapshotRow, SnapshotRows
from ottla.connect.connectors.cdc.snapshots import SnapshotProgress
from ottla.connect.connectors.database_errors import drop_cursor


class Snapshot:
    """Holds a transaction open that sees the tables at `position`."""

    def __init__(
        self,
        server: Server,
        catalog: Catalog,
        progress: SnapshotProgress,
        fetch_size: int,
        *,
        is_mariadb: bool,
    ) -> None:
        self._catalog = catalog
        self._fetch_size = fetch_size
        self._cursor: Any = None
        self.rows = SnapshotRows(catalog.tables(), progress, self._table_rows)
        self._connection = server.connect(autocommit=False)
        try:
            self.position = self._begin_on_mariadb() if is_mariadb else self._begin_with_lock(server)
        except pymysql.MySQLError:
            self._connection.close()
            raise
        self.time = time.time_ns() // 1000

    @property
    def at(self) -> list[Any]:
        return list(self.position)

    def _begin_on_mariadb(self) -> tuple[str, int]:
        """Start a consistent snapshot. MariaDB reports the matching log position."""
        self._execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        found = dict(rows_of(self._connection, "SHOW STATUS LIKE 'binlog_snapshot_%%'"))
        found = {name.lower(): value for name, value in found.items()}
        return found["binlog_snapshot_file"], int(found["binlog_snapshot_position"])

    def _begin_with_lock(self, server: Server) -> tuple[str, int]:
        """Start a consistent snapshot under a lock.

        MySQL does not report the log position, so no client may write between the snapshot and the query for it.
        """
        with contextlib.closing(server.connect()) as locking, locking.cursor() as cursor:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            self._execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            position = binlog_position(locking)
            cursor.execute("UNLOCK TABLES")
        return position

    def _execute(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def close(self) -> None:
        """Close immediately. PyMySQL would first fetch the remaining rows."""
        self.rows.close()
        if self._cursor is not None:
            drop_cursor(self._cursor)
        self._connection._force_close()

    def _table_rows(self, database: str, name: str, behind: list[Any] | None) -> Iterator[SnapshotRow]:
        table, facts = self._catalog.described(database, name)
        if not facts:
            return
        forms = {each.form.name: each for each in facts}
        keys = [forms[key] for key in self._catalog.keys(database, name) if key in forms]
        ordered = bool(keys) and all(each.form.kind in ORDERED and each.is_required for each in keys)
        names = ", ".join(_quoted(each.form.name) for each in facts)
        query = f"SELECT {names} FROM {_quoted(database)}.{_quoted(name)}"
        parameters: list[Any] = []
        if ordered:
            key_names = ", ".join(_quoted(each.form.name) for each in keys)
            if behind is not None:
                query += f" WHERE ({key_names}) > ({', '.join(['%s'] * len(behind))})"
                parameters = behind
            query += f" ORDER BY {key_names}"
        positions = [number for number, each in enumerate(facts) if any(each is key for key in keys)]
        by_name = {facts[number].form.name: number for number in positions}
        order = [by_name[each.form.name] for each in keys]
        cursor = self._cursor = self._connection.cursor(SSCursor)
        cursor.execute(query, parameters)
        while rows := cursor.fetchmany(self._fetch_size):
            for values in rows:
                key = [values[number] for number in order] if ordered else None
                yield SnapshotRow(table, values, key)
        cursor.close()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
