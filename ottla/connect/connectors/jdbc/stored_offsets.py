"""Offsets that a sink stores in the database, in the same transaction as the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ottla.connect.connectors.jdbc.dialects.dialect import Claim, Dialect
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import INT32, INT64, STRING

_KEYS = ("connector", "topic", "partition_id")
_OFFSET = "next_offset"


class StoredOffsets:
    """`next_offset` of each partition lies after every stored record. Keyed by connector name."""

    def __init__(self, dialect: Dialect, table: str, connector: str) -> None:
        self._dialect = dialect
        self._table = dialect.parse_table(table)
        self._connector = connector
        self._next: dict[tuple[str, int], int] | None = None

    def forget(self) -> None:
        self._next = None

    def not_stored(self, records: Sequence[SinkRecord]) -> list[SinkRecord]:
        stored = self._load()
        return [record for record in records if record.offset >= stored.get(_partition(record), 0)]

    def claims(self, records: Sequence[SinkRecord]) -> list[Claim]:
        """Return statements that advance the offsets if the stored offsets still equal our cached ones.

        A replaced task holds outdated offsets, so its claims change no row.
        """
        known, ends = self._load(), _ends(records)
        new = [partition for partition in ends if partition not in known]
        if new:
            insert = self._dialect.insert(self._table, [*_KEYS, _OFFSET], ignore_existing=True)
            self._dialect.transaction([(insert, [(self._connector, *partition, 0) for partition in new])])
            known.update(dict.fromkeys(new, 0))
        update = self._dialect.update_if(self._table, _KEYS, _OFFSET)
        return [
            (update, (reached, self._connector, *partition, known[partition]))
            for partition, reached in ends.items()
        ]

    def remember(self, records: Sequence[SinkRecord]) -> None:
        """Call this after the transaction."""
        if self._next is not None:
            self._next.update(_ends(records))

    def _load(self) -> dict[tuple[str, int], int]:
        if self._next is not None:
            return self._next
        dialect = self._dialect
        if not dialect.columns(self._table):
            columns = [(name, STRING) for name in _KEYS[:2]]
            statement = dialect.create_table(
                self._table, [*columns, (_KEYS[2], INT32), (_OFFSET, INT64)], _KEYS
            )
            dialect.transaction([(statement, [()])])
        quoted = [dialect.quoted(name) for name in ("topic", "partition_id", _OFFSET, "connector")]
        query = f"SELECT {', '.join(quoted[:3])} FROM {dialect.qualified(self._table)} "
        rows = dialect.select(
            query + f"WHERE {quoted[3]} = {dialect.placeholder}", [self._connector], self._table
        )
        loaded: dict[tuple[str, int], int] = {}
        try:
            while found := rows.fetch(1000):
                loaded.update({(topic, partition): following for topic, partition, following in found})
        finally:
            with contextlib.suppress(dialect.driver_error):
                rows.close()
        self._next = loaded
        return loaded


def _ends(records: Sequence[SinkRecord]) -> dict[tuple[str, int], int]:
    return {_partition(record): record.offset + 1 for record in records}


def _partition(record: SinkRecord) -> tuple[str, int]:
    partition = record.original_partition if record.original_partition >= 0 else record.partition or 0
    return record.original_topic or record.topic, partition
