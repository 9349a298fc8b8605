"""The JDBC sink task, which writes each batch in one database transaction.

Delivery is exactly once in three ways: upserts by key, Kafka coordinates as the primary key (existing rows stay
unchanged), or `offsets.table` in any mode. Each batch then stores its end offsets there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.connect.api import Config, SinkTask, SinkTaskContext
from ottla.connect.connectors.jdbc.dialects import dialect_for
from ottla.connect.connectors.jdbc.dialects.dialect import Claim, Overtaken, Statement, TableId
from ottla.connect.connectors.jdbc.record_fields import RecordFields, check_value, fields_of, place
from ottla.connect.connectors.jdbc.sink_config import SINK_CONFIG
from ottla.connect.connectors.jdbc.sink_tables import SinkTables
from ottla.connect.connectors.jdbc.source_task import connect
from ottla.connect.connectors.jdbc.stored_offsets import StoredOffsets
from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError, DataError, RetriableError


class JdbcSinkTask(SinkTask):
    _dialect: Any = None

    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._settings = SINK_CONFIG.parse(config)
        self._dialect = dialect_for(config, self._settings["dialect.name"])
        self._dialect.quote_identifiers = self._settings["quote.sql.identifiers"] == "ALWAYS"
        self._report = context.report
        self._tables = SinkTables(self._dialect, self._settings)
        self._fields: dict[tuple[str, Schema | None, Schema | None], RecordFields] = {}
        self._offsets: StoredOffsets | None = None
        if self._settings["offsets.table"]:
            self._offsets = StoredOffsets(
                self._dialect, self._settings["offsets.table"], config.get("name", "")
            )
        connect(self._dialect, self._settings)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        left = self._settings["max.retries"]
        while True:
            try:
                self._write(records)
                return
            except RetriableError:
                if left == 0:
                    raise
                left -= 1
                time.sleep(self._settings["retry.backoff.ms"] / 1000)

    def _write(self, records: Sequence[SinkRecord]) -> None:
        try:
            fresh = self._offsets.not_stored(records) if self._offsets is not None else records
            usable = [record for record in fresh if self._is_usable(record)]
            statements = list(self._statements(usable))
            try:
                self._dialect.transaction(statements, self._claims(fresh))
            except self._dialect.driver_error as error:
                if len(usable) < 2 or isinstance(self._dialect.explained(error, ""), RetriableError):
                    raise
                self._write_without_refused(usable, fresh)
            if self._offsets is not None:
                self._offsets.remember(fresh)
        except Overtaken:
            if self._offsets is not None:
                self._offsets.forget()
            raise
        except self._dialect.driver_error as error:
            explained = self._dialect.explained(error, "write records")
            if isinstance(explained, RetriableError):
                self._dialect.close()
            self._tables.forget()
            if self._offsets is not None:
                self._offsets.forget()
            raise explained from error

    def _write_without_refused(self, usable: Sequence[SinkRecord], fresh: Sequence[SinkRecord]) -> None:
        """Report the records that the database rejects, and store the others."""

        def refused(number: int, error: Exception) -> None:
            record = usable[number]
            self._report(record, self._dialect.explained(error, f"write {place(record)}"))

        parts = [list(self._statements([record])) for record in usable]
        self._dialect.transaction_by_parts(parts, refused, self._claims(fresh))

    def _claims(self, records: Sequence[SinkRecord]) -> list[Claim]:
        return self._offsets.claims(records) if self._offsets is not None else []

    def _is_usable(self, record: SinkRecord) -> bool:
        try:
            check_value(record, delete_enabled=self._settings["delete.enabled"])
        except DataError as error:
            self._report(record, error)
            return False
        return True

    def _statements(self, records: Sequence[SinkRecord]) -> Iterator[Statement]:
        """Yield statements in record order. Adjacent records with the same SQL share one statement."""
        current = ""
        rows: list[Sequence[Any]] = []
        for record in records:
            table = self._table_of(record)
            fields = self._fields_of(record)
            if record.value is None:
                if not self._tables.exists(table):
                    continue
                statement = self._dialect.delete(table, fields.keys)
                row = [self._parameter(each, record, fields, n) for n, each in enumerate(fields.keys)]
            else:
                statement = self._statement(table, fields)
                values = fields.read(record)
                if self._settings["insert.mode"] == "update":
                    values = [*values[len(fields.keys) :], *values[: len(fields.keys)]]
                row = [self._dialect.parameter(None, value) for value in values]
            if rows and (statement != current or len(rows) >= self._settings["batch.size"]):
                yield current, rows
                rows = []
            current = statement
            rows.append(row)
        if rows:
            yield current, rows

    def _parameter(self, name: str, record: SinkRecord, fields: RecordFields, number: int) -> Any:
        value = fields.readers[number](record)
        if value is None:
            raise DataError(f"Field {name} of the key is null in {place(record)}: its row cannot be found.")
        return self._dialect.parameter(None, value)

    def _table_of(self, record: SinkRecord) -> TableId:
        name = self._settings["table.name.format"].replace("${topic}", record.topic)
        found: TableId = self._dialect.parse_table(name)
        return found

    def _fields_of(self, record: SinkRecord) -> RecordFields:
        known = (record.topic, record.key_schema, record.value_schema)
        fields = self._fields.get(known)
        if fields is None:
            fields = self._fields[known] = fields_of(record, self._settings)
            if self._settings["insert.mode"] == "upsert" and not fields.keys:
                raise ConnectError(
                    "insert.mode=upsert needs a primary key: set pk.mode to record_key, record_value or kafka."
                )
        if record.value is not None:
            self._tables.prepare(self._table_of(record), fields)
        return fields

    def _statement(self, table: TableId, fields: RecordFields) -> str:
        mode = self._settings["insert.mode"]
        if mode == "upsert":
            text: str = self._dialect.upsert(table, fields.keys, fields.others)
        elif mode == "update":
            text = self._dialect.update(table, fields.keys, fields.others)
        else:
            # The same coordinates mean the same record, delivered again.
            again = self._settings["pk.mode"] == "kafka"
            text = self._dialect.insert(table, fields.names, ignore_existing=again)
        return text

    def stop(self) -> None:
        if self._dialect is not None:
            self._dialect.close()
