"""Debezium's change events: the key and value schemas of a table, and the records for changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.connectors.cdc.transactions import BLOCK, TransactionMetadata
from ottla.connect.data.record import Header, SourceRecord
from ottla.connect.data.schema import (
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    SchemaBuilder,
    SchemaType,
)
from ottla.connect.data.struct import Struct

SNAPSHOT_SCHEMA = Schema(
    SchemaType.STRING,
    optional=True,
    default="false",
    name="io.debezium.data.Enum",
    version=1,
    parameters={
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    },
)
READ, CREATE, UPDATE, DELETE, TRUNCATE = "r", "c", "u", "d", "t"

#: Values of a row, in the order of the table's columns.
Row = Sequence[Any]


def source_schema(name: str, *own: tuple[str, Schema]) -> Schema:
    builder = SchemaBuilder(name, version=1)
    common = [("version", STRING), ("connector", STRING), ("name", STRING), ("ts_ms", INT64)]
    common += [("snapshot", SNAPSHOT_SCHEMA), ("db", STRING), ("sequence", OPTIONAL_STRING)]
    common += [("ts_us", OPTIONAL_INT64), ("ts_ns", OPTIONAL_INT64)]
    for field, schema in (*common, *own):
        builder.field(field, schema)
    return builder.build()


@dataclass(frozen=True)
class CapturedColumn:
    """A captured column. `read` converts the database's value, which is never None."""

    name: str
    schema: Schema
    read: Callable[[Any], Any]
    #: Position among all columns of the table, including columns that are not captured.
    position: int
    #: Substitute for a missing value in a required field.
    missing: Any = None
    #: Hides the value.
    mask: Callable[[Any], Any] | None = None

    def value(self, raw: Any) -> Any:
        found = self.missing if raw is None else self.read(raw)
        return found if self.mask is None else self.mask(found)


class CapturedTable:
    """A table at one point of the stream. Converts rows to structs."""

    def __init__(
        self,
        schema: str,
        name: str,
        topic: str,
        columns: Sequence[CapturedColumn],
        keys: Sequence[str],
        source: Schema,
    ) -> None:
        self.schema_name = schema
        self.name = name
        self.topic = topic
        self.columns = columns
        by_name = {column.name: column for column in columns}
        self._keys = [by_name[key] for key in keys if key in by_name]
        self._readers = [(column.position, column.value) for column in columns]
        self._key_readers = [(column.position, column.value) for column in self._keys]
        self.key_columns = self._keys
        self.key_schema = _struct(f"{topic}.Key", self._keys) if self._keys else None
        self.value_schema = _struct(f"{topic}.Value", columns, optional=True)
        self.envelope_schema = (
            SchemaBuilder(f"{topic}.Envelope", version=2)
            .field("before", self.value_schema)
            .field("after", self.value_schema)
            .field("source", source)
            .field("transaction", BLOCK)
            .field("op", STRING)
            .field("ts_ms", OPTIONAL_INT64)
            .field("ts_us", OPTIONAL_INT64)
            .field("ts_ns", OPTIONAL_INT64)
            .build()
        )

    @property
    def full_name(self) -> str:
        return f"{self.schema_name}.{self.name}"

    def key(self, row: Row) -> Struct | None:
        if self.key_schema is None:
            return None
        made = Struct(self.key_schema)
        made.values = [read(row[position]) for position, read in self._key_readers]
        return made

    def value(self, row: Row) -> Struct:
        made = Struct(self.value_schema)
        made.values = [read(row[position]) for position, read in self._readers]
        return made

    def envelope(
        self, op: str, before: Struct | None, after: Struct | None, source: Struct, transaction: Struct | None
    ) -> Struct:
        made = Struct(self.envelope_schema)
        now = time.time_ns()
        made.values = [before, after, source, transaction, op, now // 1_000_000, now // 1000, now]
        return made


def _struct(name: str, columns: Sequence[CapturedColumn], *, optional: bool = False) -> Schema:
    builder = SchemaBuilder(name, optional=optional)
    for column in columns:
        builder.field(column.name, column.schema)
    return builder.build()


class Events:
    """Builds change event records. Each task has one instance, and `partition` is their common source partition."""

    def __init__(
        self,
        partition: Mapping[str, Any],
        *,
        tombstones: bool,
        skipped: Sequence[str],
        keep: Callable[[CapturedTable, Row], bool] = lambda table, row: True,
        truncated: Callable[[CapturedTable], None] = lambda table: None,
        transactions: TransactionMetadata | None = None,
    ) -> None:
        self._partition = partition
        self._tombstones = tombstones
        self._skipped = set(skipped)
        #: Returns False if a later snapshot already shows the change of this row.
        self.keep = keep
        self._truncated = truncated
        self.transactions = transactions

    def read(self, table: CapturedTable, row: Row, source: Struct, offset: Mapping[str, Any]) -> SourceRecord:
        return self._record(table, table.key(row), READ, None, table.value(row), source, offset)

    def insert(
        self, table: CapturedTable, row: Row, source: Struct, offset: Mapping[str, Any]
    ) -> list[SourceRecord]:
        if CREATE in self._skipped or not self.keep(table, row):
            return []
        return [self._record(table, table.key(row), CREATE, None, table.value(row), source, offset)]

    def update(
        self,
        table: CapturedTable,
        before: Row | None,
        after: Row,
        source: Struct,
        offset: Mapping[str, Any],
        *,
        old_key: Row | None = None,
    ) -> list[SourceRecord]:
        """`before` is the whole row if the database sends it. `old_key` holds only the old key, if the key changed."""
        old = before if before is not None else old_key
        if old is not None and table.key_schema is not None:
            key_before, key_after = table.key(old), table.key(after)
            if key_before != key_after:
                return self._move(table, old, after, source, offset)
        if UPDATE in self._skipped or not self.keep(table, after):
            return []
        seen = table.value(before) if before is not None else None
        return [self._record(table, table.key(after), UPDATE, seen, table.value(after), source, offset)]

    def _move(
        self,
        table: CapturedTable,
        before: Row,
        after: Row,
        source: Struct,
        offset: Mapping[str, Any],
    ) -> list[SourceRecord]:
        """Publish a key change as a delete and an insert, linked by headers."""
        key_before, key_after = table.key(before), table.key(after)
        records = []
        if DELETE not in self._skipped and self.keep(table, before):
            gone = self._record(table, key_before, DELETE, table.value(before), None, source, offset)
            gone.headers = [Header("__debezium.newkey", key_after, table.key_schema)]
            records.append(gone)
            if self._tombstones:
                tombstone = self._tombstone(table, key_before, gone.source_offset)
                tombstone.headers = list(gone.headers)
                records.append(tombstone)
        if CREATE not in self._skipped and self.keep(table, after):
            come = self._record(table, key_after, CREATE, None, table.value(after), source, offset)
            come.headers = [Header("__debezium.oldkey", key_before, table.key_schema)]
            records.append(come)
        return records

    def delete(
        self, table: CapturedTable, row: Row, source: Struct, offset: Mapping[str, Any]
    ) -> list[SourceRecord]:
        if DELETE in self._skipped or not self.keep(table, row):
            return []
        key = table.key(row)
        records = [self._record(table, key, DELETE, table.value(row), None, source, offset)]
        if self._tombstones and key is not None:
            records.append(self._tombstone(table, key, records[0].source_offset))
        return records

    def truncate(self, table: CapturedTable, source: Struct, offset: Mapping[str, Any]) -> list[SourceRecord]:
        self._truncated(table)
        if TRUNCATE in self._skipped:
            return []
        return [self._record(table, None, TRUNCATE, None, None, source, offset)]

    def _record(
        self,
        table: CapturedTable,
        key: Struct | None,
        op: str,
        before: Struct | None,
        after: Struct | None,
        source: Struct,
        offset: Mapping[str, Any],
    ) -> SourceRecord:
        block = None
        if self.transactions is not None and op != READ:
            block = self.transactions.event(table.full_name)
            offset = {**offset, **self.transactions.to_offset()}
        return SourceRecord(
            table.topic,
            table.envelope(op, before, after, source, block),
            table.envelope_schema,
            key,
            table.key_schema if key is not None else None,
            source_partition=self._partition,
            source_offset=offset,
        )

    def _tombstone(self, table: CapturedTable, key: Struct | None, offset: Mapping[str, Any]) -> SourceRecord:
        return SourceRecord(
            table.topic,
            None,
            None,
            key,
            table.key_schema,
            source_partition=self._partition,
            source_offset=offset,
        )
