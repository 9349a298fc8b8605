"""SQLite, through Python's own module. Column types are the declared types."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import sqlite3
from collections.abc import Sequence
from typing import Any, ClassVar

from ottla.connect.connectors.database_errors import failed, one_line
from ottla.connect.connectors.jdbc.dialects.dialect import Column, Dialect, Kind, Rows, TableId
from ottla.connect.data import logical
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import ConnectError

_DECLARED = re.compile(r"\s*([A-Za-z ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*$")
_KINDS = {
    "BOOLEAN": Kind.BOOLEAN,
    "TINYINT": Kind.TINYINT,
    "SMALLINT": Kind.SMALLINT,
    "INT2": Kind.SMALLINT,
    "BIGINT": Kind.BIGINT,
    "INT8": Kind.BIGINT,
    # Every integer column can hold 64 bits, whatever its declared type.
    "INT": Kind.BIGINT,
    "INTEGER": Kind.BIGINT,
    "REAL": Kind.DOUBLE,
    "DOUBLE": Kind.DOUBLE,
    "DOUBLE PRECISION": Kind.DOUBLE,
    "FLOAT": Kind.DOUBLE,
    "DECIMAL": Kind.NUMERIC,
    "NUMERIC": Kind.NUMERIC,
    "BLOB": Kind.VARBINARY,
    "DATE": Kind.DATE,
    "TIME": Kind.TIME,
    "DATETIME": Kind.TIMESTAMP,
    "TIMESTAMP": Kind.TIMESTAMP,
}


class SqliteDialect(Dialect):
    placeholder = "?"
    driver_error = sqlite3.Error
    column_types: ClassVar[dict[SchemaType | str, str]] = {
        SchemaType.INT8: "INTEGER",
        SchemaType.INT16: "INTEGER",
        SchemaType.INT32: "INTEGER",
        SchemaType.INT64: "INTEGER",
        SchemaType.FLOAT32: "REAL",
        SchemaType.FLOAT64: "REAL",
        SchemaType.BOOLEAN: "INTEGER",
        SchemaType.STRING: "TEXT",
        SchemaType.BYTES: "BLOB",
        logical.DECIMAL: "NUMERIC",
        logical.DATE: "NUMERIC",
        logical.TIME: "NUMERIC",
        logical.TIMESTAMP: "NUMERIC",
    }

    def _connect(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(self.target.database, timeout=10, check_same_thread=False)
        except sqlite3.Error as error:
            raise self.explained(error, "connect") from error

    def explained(self, error: Exception, doing: str) -> ConnectError:
        locked = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        if "unable to open database file" in str(error):
            return ConnectError(
                f"Cannot open {self.target}: {one_line(error)}. Check that the folder in connection.url exists, "
                "and that the worker may read and write it."
            )
        return failed(self.target, doing, error, retriable=locked)

    def tables(self, types: Sequence[str], catalog: str | None, schema: str | None) -> list[TableId]:
        kinds = [each.lower() for each in types]
        rows = self.connection.execute(
            f"SELECT name FROM sqlite_master WHERE type IN ({', '.join('?' * len(kinds))}) "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
            kinds,
        )
        return [TableId(name) for (name,) in rows]

    def columns(self, table: TableId) -> list[Column]:
        rows = self.connection.execute("SELECT * FROM pragma_table_info(?)", [table.name]).fetchall()
        return [self._column_of(row) for row in rows]

    def _column_of(self, row: Sequence[Any]) -> Column:
        _, name, declared, not_null, _, key = row
        matched = _DECLARED.match(declared or "")
        base, precision, scale = matched.groups() if matched else ("", None, None)
        kind = _KINDS.get(base.upper(), Kind.VARCHAR)
        # An INTEGER PRIMARY KEY is the rowid: never null, and assigned in increasing order.
        row_number = bool(key) and base.upper() == "INTEGER"
        return Column(
            name,
            kind,
            optional=not (not_null or row_number),
            precision=int(precision or 0),
            scale=int(scale or 0),
            primary_key=bool(key),
            type_name=declared,
            autoincrement=row_number,
            convert=_CONVERTERS.get(kind) if kind is not Kind.TIMESTAMP else self._timestamp,
        )

    def select(self, query: str, parameters: Sequence[Any], table: TableId | None) -> Rows:
        if table is not None:
            columns = self.columns(table)
        else:
            columns = self._columns_of_query(query, parameters)
        cursor = self.connection.execute(query, parameters)
        names = [each[0] for each in cursor.description]
        by_name = {column.name: column for column in columns}
        return Rows(cursor, [by_name.get(name, Column(name, Kind.VARCHAR)) for name in names], cursor.close)

    def _columns_of_query(self, query: str, parameters: Sequence[Any]) -> list[Column]:
        """Describe a query through a temporary view, which exposes the declared types of the selected columns."""
        text = query
        for value in parameters:
            text = text.replace("?", self.literal(value), 1)
        self.connection.execute("DROP VIEW IF EXISTS temp.ottla_query")
        self.connection.execute(f"CREATE TEMP VIEW ottla_query AS {text}")
        columns = self.columns(TableId("ottla_query"))
        self.connection.execute("DROP VIEW temp.ottla_query")
        return columns

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def timestamp_parameter(self, value: dt.datetime) -> str:
        return value.astimezone(self.timezone).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    def timestamp_column(self, column: str) -> str:
        """Normalize the text form so that string comparison orders by time."""
        return f"strftime('%Y-%m-%d %H:%M:%f', {self.quoted(column)})"

    def _timestamp(self, value: Any) -> dt.datetime:
        if isinstance(value, int):
            return logical.timestamp_from_millis(value)
        return self.in_utc(dt.datetime.fromisoformat(value))

    # Writing

    def qualified(self, table: TableId) -> str:
        return self.quoted(table.name)

    def parse_table(self, name: str) -> TableId:
        return TableId(name)

    def _begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def insert(self, table: TableId, columns: Sequence[str], *, ignore_existing: bool = False) -> str:
        return self._insert_into(
            table, columns, "INSERT OR IGNORE INTO" if ignore_existing else "INSERT INTO"
        )

    def upsert(self, table: TableId, keys: Sequence[str], others: Sequence[str]) -> str:
        return self._insert_into(table, [*keys, *others], "INSERT OR REPLACE INTO")

    def add_columns(self, table: TableId, columns: Sequence[tuple[str, Schema]]) -> list[str]:
        return [
            statement
            for each in columns
            for statement in super(SqliteDialect, self).add_columns(table, [each])
        ]

    def parameter(self, schema: Schema | None, value: Any) -> Any:
        value = super().parameter(schema, value)
        if isinstance(value, decimal.Decimal | dt.date | dt.time):
            return str(value)
        return value

    def literal(self, value: Any) -> str:
        return str(int(value)) if isinstance(value, bool) else super().literal(value)


_CONVERTERS: dict[Kind, Any] = {
    Kind.BOOLEAN: bool,
    Kind.NUMERIC: lambda value: decimal.Decimal(str(value)),
    Kind.DOUBLE: float,
    Kind.VARCHAR: lambda value: value if isinstance(value, str) else str(value),
    Kind.VARBINARY: lambda value: value if isinstance(value, bytes) else str(value).encode(),
    Kind.DATE: lambda value: dt.date.fromisoformat(str(value)[:10]),
    Kind.TIME: lambda value: dt.time.fromisoformat(value),
}
