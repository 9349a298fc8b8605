"""Reads the captured tables as they are at one position of the binary log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import pymysql
from pymysql.cursors import SSCursor

from ottla.spark.connect.connectors.cdc.envelope import CapturedTable
from ottla.spark.connect.connectors.cdc.mysql.catalog import ORDERED, Catalog
from ottla.spark.connect.connectors.cdc.mysql.connection import Server, binlog_position, rows_of
from ottla.spark.connect.connectors.cdc.snapshots import SnapshotProgress
from ottla.spark.connect.connectors.database_errors import drop_cursor


class SnapshotRow(NamedTuple):
    table: CapturedTable
    values: tuple[Any, ...]
    #: None: the table's key has no order that can be continued.
    key: list[Any] | None
    #: first, first_in_data_collection, true, last_in_data_collection or last
    marker: str


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
        self._progress = progress
        self._fetch_size = fetch_size
        self._cursor: Any = None
        self._tables = catalog.tables()
        self._connection = server.connect(autocommit=False)
        try:
            self.position = self._begin_on_mariadb() if is_mariadb else self._begin_with_lock(server)
        except pymysql.MySQLError:
            self._connection.close()
            raise
        self.time = time.time_ns() // 1000
        self._rows = self._all_rows()

    def _begin_on_mariadb(self) -> tuple[str, int]:
        """MariaDB says to which position of its log a consistent snapshot belongs."""
        self._execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        self._execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        found = dict(rows_of(self._connection, "SHOW STATUS LIKE 'binlog_snapshot_%%'"))
        found = {name.lower(): value for name, value in found.items()}
        return found["binlog_snapshot_file"], int(found["binlog_snapshot_position"])

    def _begin_with_lock(self, server: Server) -> tuple[str, int]:
        """MySQL does not: nobody may write between the snapshot and the question where the log ends."""
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

    @property
    def table_names(self) -> list[str]:
        return [f"{database}.{table}" for database, table in self._tables]

    def read(self, most: int) -> list[SnapshotRow]:
        """No rows: all have been read."""
        found: list[SnapshotRow] = []
        for row in self._rows:
            found.append(row)
            if len(found) == most:
                break
        return found

    def close(self) -> None:
        """At once: PyMySQL would fetch the rest of the rows first."""
        self._rows.close()
        if self._cursor is not None:
            drop_cursor(self._cursor)
        self._connection._force_close()

    def _all_rows(self) -> Generator[SnapshotRow, None, None]:
        """With markers, for which each row waits for the next."""
        waiting: SnapshotRow | None = None
        first = True
        for database, name in self._tables:
            full_name = f"{database}.{name}"
            progress = self._progress
            if progress.table is not None and full_name < progress.table:
                continue
            key = progress.key if progress.table == full_name else None
            first_in_table = key is None
            for row in self._table_rows(database, name, key):
                if waiting is not None:
                    changes = waiting.table is not row.table and waiting.marker != "first"
                    yield waiting._replace(marker="last_in_data_collection") if changes else waiting
                marker = "first" if first else "first_in_data_collection" if first_in_table else "true"
                first = first_in_table = False
                waiting = row._replace(marker=marker)
        if waiting is not None:
            yield waiting._replace(marker="last")

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
                yield SnapshotRow(table, values, key, "true")
        cursor.close()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
