"""PostgreSQL, through psycopg."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import psycopg
from psycopg import pq
from psycopg.types.json import set_json_loads

from ottla.connect.connectors.database_errors import postgres_error
from ottla.connect.connectors.jdbc.dialects.dialect import Column, Dialect, Kind, Rows, TableId
from ottla.connect.data import logical
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import ConnectError

_KINDS = {
    16: Kind.BOOLEAN,
    17: Kind.VARBINARY,
    18: Kind.VARCHAR,
    19: Kind.VARCHAR,
    20: Kind.BIGINT,
    21: Kind.SMALLINT,
    23: Kind.INTEGER,
    25: Kind.VARCHAR,
    26: Kind.BIGINT,
    114: Kind.VARCHAR,
    142: Kind.VARCHAR,
    700: Kind.REAL,
    701: Kind.DOUBLE,
    790: Kind.DOUBLE,
    1042: Kind.VARCHAR,
    1043: Kind.VARCHAR,
    1082: Kind.DATE,
    1083: Kind.TIME,
    1114: Kind.TIMESTAMP,
    1184: Kind.TIMESTAMP,
    1266: Kind.TIME,
    1700: Kind.NUMERIC,
    2950: Kind.VARCHAR,
    3802: Kind.VARCHAR,
}
_MONEY, _UUID = 790, 2950
_TYPES = {
    "TABLE": "r",
    "VIEW": "v",
    "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
    "PARTITIONED TABLE": "p",
}


class PostgresDialect(Dialect):
    driver_error = psycopg.Error
    column_types: ClassVar[dict[SchemaType | str, str]] = {
        SchemaType.INT8: "SMALLINT",
        SchemaType.INT16: "SMALLINT",
        SchemaType.INT32: "INT",
        SchemaType.INT64: "BIGINT",
        SchemaType.FLOAT32: "REAL",
        SchemaType.FLOAT64: "DOUBLE PRECISION",
        SchemaType.BOOLEAN: "BOOLEAN",
        SchemaType.STRING: "TEXT",
        SchemaType.BYTES: "BYTEA",
        logical.DECIMAL: "DECIMAL",
        logical.DATE: "DATE",
        logical.TIME: "TIME",
        logical.TIMESTAMP: "TIMESTAMP",
    }
    _numbers = itertools.count()

    def _connect(self) -> psycopg.Connection[Any]:
        target = self.target
        options = {"sslmode": "require"} if target.options.get("ssl") == "true" else {}
        options |= {
            name: value for name, value in target.options.items() if name.startswith("ssl") and name != "ssl"
        }
        if "connectTimeout" in target.options:
            options["connect_timeout"] = target.options["connectTimeout"]
        if "currentSchema" in target.options:
            options["options"] = f"-c search_path={target.options['currentSchema']}"
        try:
            connection = psycopg.connect(
                host=target.host,
                port=target.port,
                dbname=target.database,
                user=target.user,
                password=target.password,
                application_name="ottla-connect",
                **options,
            )
            connection.execute("SELECT set_config('TimeZone', %s, false)", [target.timezone])
            connection.commit()
        except psycopg.Error as error:
            raise self.explained(error, "connect") from error
        set_json_loads(lambda text: text if isinstance(text, str) else bytes(text).decode(), connection)
        return connection

    def explained(self, error: Exception, doing: str) -> ConnectError:
        return postgres_error(error, self.target, doing)

    def tables(self, types: Sequence[str], catalog: str | None, schema: str | None) -> list[TableId]:
        kinds = [_TYPES[each.upper()] for each in types if each.upper() in _TYPES]
        if "r" in kinds:
            kinds.append("p")
        rows = self.connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind::text = ANY(%s) AND NOT c.relispartition "
            "AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%' "
            "AND (%s::text IS NULL OR n.nspname LIKE %s) ORDER BY 1, 2",
            [kinds, schema, schema],
        ).fetchall()
        self.connection.commit()
        return [TableId(name, space, self.target.database) for space, name in rows]

    def columns(self, table: TableId) -> list[Column]:
        name = self.qualified(table)
        found = self.connection.execute("SELECT to_regclass(%s)::oid", [name]).fetchone()
        if found is None or found[0] is None:
            self.connection.commit()
            return []
        keys = {
            row[0]
            for row in self.connection.execute(
                "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
                "AND a.attnum = ANY(i.indkey) WHERE i.indrelid = %s AND i.indisprimary",
                [found[0]],
            )
        }
        described = self._describe(self.connection.execute(f"SELECT * FROM {name} LIMIT 0"), keys)
        self.connection.commit()
        return described

    def select(self, query: str, parameters: Sequence[Any], table: TableId | None) -> Rows:
        connection = self.connection
        cursor = connection.cursor(name=f"ottla_{next(self._numbers)}")
        try:
            cursor.execute(query, parameters)
            columns = self._describe(cursor, set())
        except psycopg.Error:
            close_cursor(connection, cursor)
            raise

        def close() -> None:
            close_cursor(connection, cursor)
            connection.commit()

        return Rows(cursor, columns, close)

    def _describe(self, cursor: Any, keys: set[str]) -> list[Column]:
        result = cursor.pgresult
        sources = [(result.ftable(number), result.ftablecol(number)) for number in range(result.nfields)]
        facts = {
            (row[0], row[1]): (row[2], row[3])
            for row in self.connection.execute(
                "SELECT a.attrelid::bigint, a.attnum, a.attnotnull, "
                "coalesce(a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false) "
                "FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
                "WHERE a.attrelid = ANY(%s::oid[])",
                [sorted({oid for oid, _ in sources if oid})],
            )
        }
        unknown = {each.type_code for each in cursor.description} - set(_KINDS)
        enums = {
            row[0]
            for row in self.connection.execute(
                "SELECT oid::bigint FROM pg_type WHERE oid = ANY(%s::oid[]) AND typtype = 'e'",
                [sorted(unknown)],
            )
        }
        columns = []
        for each, source in zip(cursor.description, sources, strict=True):
            not_null, counted = facts.get(source, (False, False))
            kind = Kind.VARCHAR if each.type_code in enums else _KINDS.get(each.type_code)
            columns.append(
                Column(
                    each.name,
                    kind,
                    optional=not not_null,
                    precision=each.precision or 0,
                    scale=each.scale or 0,
                    primary_key=each.name in keys,
                    type_name=each.type_display,
                    autoincrement=counted,
                    convert=self._converter(kind, each.type_code),
                )
            )
        return columns

    def _converter(self, kind: Kind | None, oid: int) -> Any:
        if kind is Kind.TIMESTAMP:
            return self.in_utc
        if oid == _UUID:
            return str
        if oid == _MONEY:
            return lambda text: float("".join(mark for mark in text if mark in "-.0123456789"))
        if kind is Kind.TIME:
            return lambda value: value.replace(tzinfo=None)
        return None

    def now(self) -> dt.datetime:
        row = self.connection.execute("SELECT clock_timestamp()").fetchone()
        self.connection.commit()
        assert row is not None
        return self.in_utc(row[0])

    # Writing

    def insert(self, table: TableId, columns: Sequence[str], *, ignore_existing: bool = False) -> str:
        return self._insert_into(table, columns) + (" ON CONFLICT DO NOTHING" if ignore_existing else "")

    def upsert(self, table: TableId, keys: Sequence[str], others: Sequence[str]) -> str:
        matched = ", ".join(self.quoted(name) for name in keys)
        insert = f"{self._insert_into(table, [*keys, *others])} ON CONFLICT ({matched})"
        if not others:
            return f"{insert} DO NOTHING"
        names = [self.quoted(name) for name in others]
        return f"{insert} DO UPDATE SET " + ", ".join(f"{name} = EXCLUDED.{name}" for name in names)

    def column_type(self, schema: Schema, *, primary_key: bool) -> str:
        if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
            return f"{self.column_type(schema.value_schema, primary_key=False)}[]"
        return super().column_type(schema, primary_key=primary_key)

    def literal(self, value: Any) -> str:
        return f"'\\x{value.hex()}'" if isinstance(value, bytes) else super().literal(value)


def close_cursor(connection: psycopg.Connection[Any], cursor: Any) -> None:
    """Close the cursor on the server too if the connection still works. Otherwise drop both."""
    try:
        if connection.info.transaction_status == pq.TransactionStatus.INERROR:
            connection.rollback()
        cursor.close()
    except psycopg.Error:
        connection.close()
        cursor.close()
