"""The rows of a snapshot, table by table, with Debezium's snapshot markers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

from ottla.connect.connectors.cdc.envelope import CapturedTable, Row
from ottla.connect.connectors.cdc.snapshots import SnapshotProgress


class SnapshotRow(NamedTuple):
    table: CapturedTable
    values: Row
    #: None if the table's key has no order to resume from.
    key: list[Any] | None
    #: first, first_in_data_collection, true, last_in_data_collection or last
    marker: str = "true"


#: Reads a table by schema, name, and the key after which to start.
TableRows = Callable[[str, str, list[Any] | None], Iterator[SnapshotRow]]


class SnapshotRows:
    """The remaining rows of a snapshot. `tables` are sorted by full name."""

    def __init__(
        self, tables: Sequence[tuple[str, str]], progress: SnapshotProgress, table_rows: TableRows
    ) -> None:
        self._tables = tables
        self._progress = progress
        self._table_rows = table_rows
        self._rows = self._all()

    @property
    def table_names(self) -> list[str]:
        return [f"{schema}.{table}" for schema, table in self._tables]

    def read(self, most: int) -> list[SnapshotRow]:
        """An empty list means the end."""
        return list(itertools.islice(self._rows, most))

    def close(self) -> None:
        self._rows.close()

    def _all(self) -> Generator[SnapshotRow, None, None]:
        """Yield rows with markers. Each row waits for the next one to decide its marker."""
        waiting: SnapshotRow | None = None
        first = True
        progress = self._progress
        for (schema, name), full_name in zip(self._tables, self.table_names, strict=True):
            if progress.table is not None and full_name < progress.table:
                continue
            key = progress.key if progress.table == full_name else None
            first_in_table = key is None
            for row in self._table_rows(schema, name, key):
                if waiting is not None:
                    changes = waiting.table is not row.table and waiting.marker != "first"
                    yield waiting._replace(marker="last_in_data_collection") if changes else waiting
                marker = "first" if first else "first_in_data_collection" if first_in_table else "true"
                first = first_in_table = False
                waiting = row._replace(marker=marker)
        if waiting is not None:
            yield waiting._replace(marker="last")
