"""The `source` struct of events and the offsets, in the format of Debezium's PostgreSQL connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla import __version__
from ottla.connect.connectors.cdc.envelope import CapturedTable, source_schema
from ottla.connect.connectors.cdc.postgres.stream import Position
from ottla.connect.data.schema import OPTIONAL_INT64, STRING
from ottla.connect.data.struct import Struct

SOURCE = source_schema(
    "io.debezium.connector.postgresql.Source",
    ("schema", STRING),
    ("table", STRING),
    ("txId", OPTIONAL_INT64),
    ("lsn", OPTIONAL_INT64),
    ("xmin", OPTIONAL_INT64),
)


class SourceInfo:
    def __init__(self, name: str, database: str) -> None:
        self._name = name
        self._database = database

    def struct(
        self, table: CapturedTable, micros: int, snapshot: str, last_commit: int | None, lsn: int, xid: int
    ) -> Struct:
        before = "null" if last_commit is None else f'"{last_commit}"'
        return self._struct(table, micros, snapshot, f'[{before},"{lsn}"]', lsn, xid)

    def of_chunk(self, table: CapturedTable, micros: int, at: int) -> Struct:
        """Describe a row of an incremental snapshot, which belongs to no transaction."""
        return self._struct(table, micros, "incremental", f'["{at}","{at}"]', None, None)

    def _struct(
        self,
        table: CapturedTable,
        micros: int,
        snapshot: str,
        sequence: str,
        lsn: int | None,
        xid: int | None,
    ) -> Struct:
        made = Struct(SOURCE)
        made.values = [
            __version__,
            "postgresql",
            self._name,
            micros // 1000,
            snapshot,
            self._database,
            sequence,
            micros,
            micros * 1000,
            table.schema_name,
            table.name,
            xid,
            lsn,
            None,
        ]
        return made


def position_from(offset: Mapping[str, Any]) -> Position:
    """Parse an offset, including Debezium's own."""
    if "lsn_commit" not in offset:
        return Position(offset["lsn"])
    if "changes" in offset:
        return Position(offset["lsn_commit"], offset["changes"])
    return Position(offset["lsn_commit"], 0, offset["lsn"])
