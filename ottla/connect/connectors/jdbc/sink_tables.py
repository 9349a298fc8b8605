"""Sink tables: looks them up, creates them (`auto.create`) and adds columns (`auto.evolve`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.connectors.jdbc.dialects.dialect import Column, Dialect, TableId
from ottla.connect.connectors.jdbc.record_fields import RecordFields
from ottla.connect.errors import ConnectError


class SinkTables:
    """A cache of table definitions. It is cleared with the connection, because other clients may alter the tables."""

    def __init__(self, dialect: Dialect, settings: Mapping[str, Any]) -> None:
        self._dialect = dialect
        self._settings = settings
        self._known: dict[TableId, dict[str, Column]] = {}

    def forget(self) -> None:
        self._known.clear()

    def exists(self, table: TableId) -> bool:
        return table in self._known or bool(self._columns(table))

    def prepare(self, table: TableId, fields: RecordFields) -> None:
        known = self._known.get(table)
        if known is not None and all(name in known for name in fields.names):
            return
        there = self._columns(table)
        if not there:
            self._create(table, fields)
            there = self._columns(table)
        missing = [(name, schema) for name, schema in fields.columns if name not in there]
        if missing:
            self._evolve(table, missing, there)
            there = self._columns(table)
        self._check_key(table, fields, there)
        self._known[table] = there

    def _columns(self, table: TableId) -> dict[str, Column]:
        return {column.name: column for column in self._dialect.columns(table)}

    def _create(self, table: TableId, fields: RecordFields) -> None:
        if not self._settings["auto.create"]:
            raise ConnectError(
                f"Table {table} is missing in {self._dialect.target} and auto-creation is disabled: create it, or set "
                "auto.create=true."
            )
        statement = self._dialect.create_table(table, fields.columns, fields.keys)
        try:
            self._dialect.transaction([(statement, [()])])
        except self._dialect.driver_error:
            # Another task may have created the table first.
            if not self._columns(table):
                raise

    def _evolve(self, table: TableId, missing: list[tuple[str, Any]], there: Mapping[str, Column]) -> None:
        names = ", ".join(name for name, _ in missing)
        if not self._settings["auto.evolve"]:
            raise ConnectError(
                f"Table {table} in {self._dialect.target} is missing the columns {names} and auto-evolution is "
                f"disabled. It has {', '.join(there)}. Add them, leave them out by fields.whitelist, or set "
                "auto.evolve=true."
            )
        for name, schema in missing:
            if not schema.optional and schema.default is None:
                raise ConnectError(
                    f"Cannot ALTER TABLE {table} to add the missing field {name}: the field is not optional and does "
                    "not have a default value, so existing rows would have none."
                )
        try:
            for statement in self._dialect.add_columns(table, missing):
                self._dialect.transaction([(statement, [()])])
        except self._dialect.driver_error:
            if not all(name in self._columns(table) for name, _ in missing):
                raise

    def _check_key(self, table: TableId, fields: RecordFields, there: Mapping[str, Column]) -> None:
        if self._settings["insert.mode"] != "upsert":
            return
        primary = {name for name, column in there.items() if column.primary_key}
        if not primary:
            raise ConnectError(
                f"Table {table} in {self._dialect.target} has no primary key, so insert.mode=upsert cannot find the "
                f"row to change: add PRIMARY KEY ({', '.join(fields.keys)}) or a unique index, or use insert."
            )
