"""Reads chunks of tables for incremental snapshots."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from ottla.connect.connectors.cdc.envelope import CapturedTable
from ottla.connect.connectors.cdc.incremental import Chunk, ChunkRow, IncrementalProgress, Texts
from ottla.connect.connectors.cdc.postgres.catalog import Catalog
from ottla.connect.connectors.cdc.postgres.source_info import SourceInfo
from ottla.connect.data.struct import Struct

_log = logging.getLogger(__name__)

#: Transactions whose visibility is checked.
_RECENT = 1000


class PostgresChunks:
    """Invariant: a chunk shows every transaction that the stream has published before."""

    def __init__(
        self,
        open: Callable[[], tuple[psycopg.Connection[Any], Catalog]],
        commit_end: Callable[[], int],
        source: SourceInfo,
        size: int,
        signal_table: str,
    ) -> None:
        self._open = open
        self._commit_end = commit_end
        self._source = source
        self._size = size
        self._signal_table = signal_table
        #: Ids of transactions that the stream has read.
        self.streamed: deque[int] = deque(maxlen=_RECENT)

    def tables(self) -> Sequence[str]:
        _, catalog = self._open()
        names = (f"{schema}.{table}" for schema, table in catalog.tables())
        return [each for each in names if each != self._signal_table]

    def read(self, progress: IncrementalProgress) -> Chunk | None:
        connection, catalog = self._open()
        wanted = progress.tables[0]
        schema, _, name = wanted.name.partition(".")
        table, facts = catalog.described(schema, name)
        keys = [wanted.surrogate_key] if wanted.surrogate_key else catalog.keys(schema, name)
        places = [number for key in keys for number, each in enumerate(facts) if each.name == key]
        if not places:
            _log.warning("%s has no key, so its incremental snapshot is left out.", wanted.name)
            return Chunk(table, (), None, is_last=True)
        columns = sql.SQL(", ").join(sql.Identifier(each.name) for each in facts)
        named = [sql.Identifier(facts[place].name) for place in places]
        order = sql.SQL(", ").join(named)
        conditions = [sql.SQL("({})").format(sql.SQL(wanted.condition))] if wanted.condition else []
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            if not self._shows_streamed(connection):
                return None
            maximum = progress.maximum or self._maximum(connection, wanted.name, named, conditions)
            if maximum is None:
                return Chunk(table, (), None, is_last=True)
            conditions.append(sql.SQL("({}) <= ({})").format(order, _literals(maximum)))
            if progress.key is not None:
                conditions.append(sql.SQL("({}) > ({})").format(order, _literals(progress.key)))
            query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {}").format(
                columns, sql.Identifier(schema, name), sql.SQL(" AND ").join(conditions), order, self._size
            )
            values = _texts(connection.execute(query))
        finally:
            connection.execute("ROLLBACK")
        rows = [ChunkRow(each, _place([each[place] for place in places])) for each in values]
        is_last = len(rows) < self._size or rows[-1].place == maximum
        return Chunk(table, rows, maximum, is_last)

    def _maximum(
        self,
        connection: psycopg.Connection[Any],
        table: str,
        named: Sequence[sql.Identifier],
        conditions: Sequence[sql.Composable],
    ) -> Texts | None:
        schema, _, name = table.partition(".")
        query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(named), sql.Identifier(schema, name))
        if conditions:
            query += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions)
        down = sql.SQL(", ").join(sql.SQL("{} DESC NULLS LAST").format(each) for each in named)
        found = _texts(connection.execute(query + sql.SQL(" ORDER BY {} LIMIT 1").format(down)))
        return _place(found[0]) if found and None not in found[0] else None

    def _shows_streamed(self, connection: psycopg.Connection[Any]) -> bool:
        """Return False if the stream was ahead: a commit is in the log a moment before others see it."""
        row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        _, most, running = row[0].split(":")
        hidden = {int(each) & 0xFFFFFFFF for each in running.split(",") if each}
        # Ids wrap around at 32 bits.
        return not any(
            each in hidden or (each - int(most)) & 0xFFFFFFFF < 0x80000000 for each in self.streamed
        )

    def of_row(self, table: CapturedTable) -> tuple[Struct, dict[str, Any]]:
        at = self._commit_end()
        source = self._source.of_chunk(table, time.time_ns() // 1000, at)
        return source, {"lsn_proc": at, "lsn_commit": at, "lsn": at, "changes": 0}


def _literals(texts: Texts) -> sql.Composable:
    return sql.SQL(", ").join(sql.Literal(each) for each in texts)


def _place(values: Sequence[bytes | None]) -> Texts:
    return tuple((each or b"").decode() for each in values)


def _texts(cursor: psycopg.Cursor[Any]) -> list[list[bytes | None]]:
    """Return all values in text form, as in the log."""
    result = cursor.pgresult
    assert result is not None
    return [
        [result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)
    ]
