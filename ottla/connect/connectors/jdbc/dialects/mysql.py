"""MySQL and MariaDB, through PyMySQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, ClassVar

import pymysql
from pymysql.constants import CLIENT, FIELD_TYPE, FLAG
from pymysql.cursors import SSCursor

from ottla.connect.connectors.database_errors import drop_cursor, mysql_error
from ottla.connect.connectors.jdbc.dialects.dialect import Column, Dialect, Kind, Rows, TableId
from ottla.connect.data import logical
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import ConnectError

_KINDS = {
    FIELD_TYPE.TINY: Kind.TINYINT,
    FIELD_TYPE.SHORT: Kind.SMALLINT,
    FIELD_TYPE.INT24: Kind.INTEGER,
    FIELD_TYPE.LONG: Kind.INTEGER,
    FIELD_TYPE.LONGLONG: Kind.BIGINT,
    FIELD_TYPE.YEAR: Kind.SMALLINT,
    FIELD_TYPE.FLOAT: Kind.REAL,
    FIELD_TYPE.DOUBLE: Kind.DOUBLE,
    FIELD_TYPE.DECIMAL: Kind.NUMERIC,
    FIELD_TYPE.NEWDECIMAL: Kind.NUMERIC,
    FIELD_TYPE.DATE: Kind.DATE,
    FIELD_TYPE.TIME: Kind.TIME,
    FIELD_TYPE.TIMESTAMP: Kind.TIMESTAMP,
    FIELD_TYPE.DATETIME: Kind.TIMESTAMP,
    FIELD_TYPE.VARCHAR: Kind.VARCHAR,
    FIELD_TYPE.VAR_STRING: Kind.VARCHAR,
    FIELD_TYPE.STRING: Kind.VARCHAR,
    FIELD_TYPE.BLOB: Kind.VARCHAR,
    FIELD_TYPE.JSON: Kind.VARCHAR,
    FIELD_TYPE.ENUM: Kind.VARCHAR,
    FIELD_TYPE.SET: Kind.VARCHAR,
    FIELD_TYPE.BIT: Kind.VARBINARY,
    FIELD_TYPE.GEOMETRY: Kind.VARBINARY,
}
#: An unsigned column needs the next larger signed type.
_WIDER = {Kind.TINYINT: Kind.SMALLINT, Kind.SMALLINT: Kind.INTEGER, Kind.INTEGER: Kind.BIGINT}
_BINARY = 63


class MySqlDialect(Dialect):
    quote = "`"
    driver_error = pymysql.MySQLError
    column_types: ClassVar[dict[SchemaType | str, str]] = {
        SchemaType.INT8: "TINYINT",
        SchemaType.INT16: "SMALLINT",
        SchemaType.INT32: "INT",
        SchemaType.INT64: "BIGINT",
        SchemaType.FLOAT32: "FLOAT",
        SchemaType.FLOAT64: "DOUBLE",
        SchemaType.BOOLEAN: "TINYINT",
        SchemaType.STRING: "TEXT",
        SchemaType.BYTES: "VARBINARY(1024)",
        logical.DECIMAL: "DECIMAL(65,{scale})",
        logical.DATE: "DATE",
        logical.TIME: "TIME(3)",
        logical.TIMESTAMP: "DATETIME(3)",
    }

    def _connect(self) -> Any:
        target = self.target
        secure = target.options.get("useSSL") == "true" or target.options.get("sslMode", "disable") not in (
            "disable",
            "DISABLED",
        )
        try:
            return pymysql.connect(
                host=target.host,
                port=target.port,
                database=target.database or None,
                user=target.user,
                # PyMySQL would encode a str as Latin 1.
                password=(target.password or "").encode(),
                charset="utf8mb4",
                init_command="SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
                # Count the rows that an UPDATE matches, even if they already hold the new values.
                client_flag=CLIENT.FOUND_ROWS,
                ssl={"check_hostname": False} if secure else None,
            )
        except pymysql.MySQLError as error:
            raise self.explained(error, "connect") from error

    def explained(self, error: Exception, doing: str) -> ConnectError:
        return mysql_error(error, self.target, doing)

    def _rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, parameters)
            found = list(cursor.fetchall())
        self.connection.commit()
        return found

    def tables(self, types: Sequence[str], catalog: str | None, schema: str | None) -> list[TableId]:
        kinds = ["BASE TABLE" if each.upper() == "TABLE" else each.upper() for each in types]
        rows = self._rows(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type IN %s "
            "AND table_schema LIKE %s ORDER BY 1, 2",
            [kinds, catalog or self.target.database or "%"],
        )
        return [TableId(name, None, database) for database, name in rows]

    def qualified(self, table: TableId) -> str:
        return self.quoted(table.catalog, table.name)

    def parse_table(self, name: str) -> TableId:
        database, _, table = name.rpartition(".")
        return TableId(table, None, database or None)

    def columns(self, table: TableId) -> list[Column]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {self.qualified(table)} LIMIT 0")
                columns = self._describe(cursor)
        except pymysql.err.ProgrammingError as error:
            if error.args[0] == 1146:
                return []
            raise
        finally:
            self.connection.commit()
        return columns

    def select(self, query: str, parameters: Sequence[Any], table: TableId | None) -> Rows:
        connection = self.connection
        cursor = connection.cursor(SSCursor)
        cursor.execute(query, parameters)

        def close() -> None:
            if cursor._result is not None and cursor._result.unbuffered_active:
                # Closed early: a connection with pending rows cannot be reused.
                drop_cursor(cursor)
                connection._force_close()
                self._connection = None
            else:
                cursor.close()
                connection.commit()

        return Rows(cursor, self._describe(cursor), close)

    def _describe(self, cursor: Any) -> list[Column]:
        columns = []
        for each in cursor._result.fields:
            kind = _KINDS.get(each.type_code)
            binary = each.charsetnr == _BINARY
            if kind is Kind.VARCHAR and binary and each.type_code != FIELD_TYPE.JSON:
                kind = Kind.VARBINARY
            if each.type_code == FIELD_TYPE.BIT and each.length == 1:
                kind = Kind.BOOLEAN
            if kind in _WIDER and each.flags & FLAG.UNSIGNED and each.type_code != FIELD_TYPE.YEAR:
                kind = _WIDER[kind]
            # The length of a decimal counts the point and the sign.
            precision = each.length - (each.scale > 0) - (not each.flags & FLAG.UNSIGNED)
            columns.append(
                Column(
                    each.name,
                    kind,
                    optional=not each.flags & FLAG.NOT_NULL,
                    precision=precision,
                    scale=each.scale,
                    primary_key=bool(each.flags & FLAG.PRI_KEY),
                    autoincrement=bool(each.flags & FLAG.AUTO_INCREMENT),
                    convert=self._converter(kind, each.type_code),
                )
            )
        return columns

    def _converter(self, kind: Kind | None, type_code: int) -> Any:
        if type_code == FIELD_TYPE.TIMESTAMP:
            return lambda value: None if isinstance(value, str) else value.replace(tzinfo=dt.UTC)
        if kind is Kind.TIMESTAMP:
            # A "zero date" arrives as text.
            return lambda value: None if isinstance(value, str) else self.in_utc(value)
        if kind is Kind.DATE:
            return lambda value: None if isinstance(value, str) else value
        if kind is Kind.TIME:
            return _time_of_day
        if kind is Kind.BOOLEAN:
            return lambda value: value not in (b"\0", 0)
        return None

    def now(self) -> dt.datetime:
        moment: dt.datetime = self._rows("SELECT UTC_TIMESTAMP(3)")[0][0]
        return moment.replace(tzinfo=dt.UTC)

    # Writing

    def _begin(self) -> None:
        self.connection.begin()

    def insert(self, table: TableId, columns: Sequence[str], *, ignore_existing: bool = False) -> str:
        first = self.quoted(columns[0])
        return self._insert_into(table, columns) + (
            f" ON DUPLICATE KEY UPDATE {first} = {first}" if ignore_existing else ""
        )

    def upsert(self, table: TableId, keys: Sequence[str], others: Sequence[str]) -> str:
        names = [self.quoted(name) for name in others or keys[:1]]
        changes = ", ".join(f"{name} = VALUES({name})" for name in names)
        return f"{self._insert_into(table, [*keys, *others])} ON DUPLICATE KEY UPDATE {changes}"

    def column_type(self, schema: Schema, *, primary_key: bool) -> str:
        if primary_key and schema.type is SchemaType.STRING:
            # MySQL cannot index a text of unlimited length as a key.
            return "VARCHAR(256)"
        return super().column_type(schema, primary_key=primary_key)


def _time_of_day(value: dt.timedelta) -> dt.time | None:
    """Convert a TIME, which may span days. Return None for values outside one day, which no schema can represent."""
    if not dt.timedelta(0) <= value < dt.timedelta(days=1):
        return None
    return (dt.datetime.min + value).time()
