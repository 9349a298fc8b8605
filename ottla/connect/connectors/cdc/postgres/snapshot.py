"""Reads the captured tables as of one log position."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

from ottla.connect.connectors.cdc.postgres.catalog import (
    ORDERED_NUMBERS,
    ORDERED_TEXTS,
    Catalog,
    ColumnFacts,
)
from ottla.connect.connectors.cdc.postgres.connection import Server
from ottla.connect.connectors.cdc.postgres.slots import ExportedSnapshot
from ottla.connect.connectors.cdc.snapshot_rows import SnapshotRow, SnapshotRows
from ottla.connect.connectors.cdc.snapshots import SnapshotProgress


class Snapshot:
    """Holds a transaction open that sees the exported snapshot."""

    def __init__(
        self,
        server: Server,
        catalog: Catalog,
        exported: ExportedSnapshot,
        progress: SnapshotProgress,
        fetch_size: int,
        signal_table: str = "",
    ) -> None:
        self.at = exported.lsn
        self._catalog = catalog
        self._fetch_size = fetch_size
        tables = [each for each in catalog.tables() if ".".join(each) != signal_table]
        self.rows = SnapshotRows(tables, progress, self._table_rows)
        self._connection = server.connect(autocommit=False)
        try:
            self.xid = self._join(exported)
        except psycopg.Error:
            self._connection.close()
            raise
        finally:
            exported.holder.finish()
        self.time = time.time_ns() // 1000

    def _join(self, exported: ExportedSnapshot) -> int:
        self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(exported.name))
        # Do not acquire a transaction id: creating a slot would wait for our transaction to end.
        row = self._connection.execute(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        self._connection.close()
        self.rows.close()

    def _table_rows(self, schema: str, name: str, behind: list[Any] | None) -> Iterator[SnapshotRow]:
        table, facts = self._catalog.described(schema, name)
        if not facts:
            return
        by_name = {each.name: each for each in facts}
        order = self._order([by_name[key] for key in self._catalog.keys(schema, name) if key in by_name])
        columns = sql.SQL(", ").join(sql.Identifier(each.name) for each in facts)
        query = sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(schema, name))
        if order is not None:
            keys = sql.SQL(", ").join(part for _, part in order)
            if behind is not None:
                bound = sql.SQL(", ").join(sql.Literal(each) for each in behind)
                query += sql.SQL(" WHERE ({}) > ({})").format(keys, bound)
            query += sql.SQL(" ORDER BY {}").format(keys)
        positions = {each.name: number for number, each in enumerate(facts)}
        readers = [(positions[each.name], self._reader(each)) for each, _ in order or ()]
        for values in self._fetched(query):
            key = [read(values[position]) for position, read in readers] if order is not None else None
            yield SnapshotRow(table, values, key)

    def _fetched(self, query: sql.Composed) -> Iterator[list[bytes | None]]:
        """Yield values in text form, as in the log."""
        self._connection.execute(sql.SQL("DECLARE captured NO SCROLL CURSOR FOR ") + query)
        fetch = sql.SQL("FETCH {} FROM captured").format(sql.Literal(self._fetch_size))
        while True:
            result = self._connection.execute(fetch).pgresult
            assert result is not None
            if result.ntuples == 0:
                break
            numbers = range(result.nfields)
            get = result.get_value
            for number in range(result.ntuples):
                yield [get(number, column) for column in numbers]
        self._connection.execute("CLOSE captured")

    def _order(self, keys: Sequence[ColumnFacts]) -> list[tuple[ColumnFacts, sql.Composable]] | None:
        order: list[tuple[ColumnFacts, sql.Composable]] = []
        for key in keys:
            type_name = self._catalog.pg_type(key.type_oid).name
            if not key.is_required or type_name not in ORDERED_NUMBERS | ORDERED_TEXTS:
                return None
            name: sql.Composable = sql.Identifier(key.name)
            if type_name in ("text", "varchar"):
                name = sql.SQL('{} COLLATE "C"').format(name)
            order.append((key, name))
        return order or None

    def _reader(self, key: ColumnFacts) -> Any:
        if self._catalog.pg_type(key.type_oid).name in ORDERED_NUMBERS:
            return int
        return lambda data: data.decode()
