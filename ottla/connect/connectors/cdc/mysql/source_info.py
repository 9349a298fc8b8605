"""The `source` struct of events and the offsets, in the format of Debezium's MariaDB and MySQL connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla import __version__
from ottla.connect.connectors.cdc.envelope import CapturedTable, source_schema
from ottla.connect.connectors.cdc.mysql.stream import Position, Transaction
from ottla.connect.data.schema import INT32, INT64, OPTIONAL_INT64, OPTIONAL_STRING, STRING
from ottla.connect.data.struct import Struct


class SourceInfo:
    def __init__(self, name: str, product: str) -> None:
        self._name = name
        self._product = product
        self.schema = source_schema(
            f"io.debezium.connector.{product}.Source",
            ("table", OPTIONAL_STRING),
            ("server_id", INT64),
            ("gtid", OPTIONAL_STRING),
            ("file", STRING),
            ("pos", INT64),
            ("row", INT32),
            ("thread", OPTIONAL_INT64),
            ("query", OPTIONAL_STRING),
        )

    def struct(
        self, table: CapturedTable, transaction: Transaction, snapshot: str, file: str, pos: int, row: int
    ) -> Struct:
        made = Struct(self.schema)
        micros = transaction.time
        made.values = [
            __version__,
            self._product,
            self._name,
            micros // 1000,
            snapshot,
            table.schema_name,
            None,
            micros,
            micros * 1000,
            table.name,
            transaction.server_id,
            transaction.gtid,
            file,
            pos,
            row,
            None,
            None,
        ]
        return made


def position_from(offset: Mapping[str, Any]) -> Position:
    """Parse an offset. Debezium's own offsets work if they lie between two transactions."""
    return Position(offset["file"], offset["pos"], offset.get("changes", 0))
