"""The dialect interface, and the description of tables and columns."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ottla.connect.config.config_def import invalid
from ottla.connect.connectors.jdbc.urls import Target
from ottla.connect.data import logical
from ottla.connect.data.schema import Schema, SchemaType
from ottla.connect.errors import ConnectError, DataError, RetriableError

#: SQL with placeholders, and the parameter rows to run it with.
Statement = tuple[str, Sequence[Sequence[Any]]]
#: A statement that must change exactly one row, with its parameters.
Claim = tuple[str, Sequence[Any]]


class Overtaken(RetriableError):
    """A claim changed no row because its premises are out of date."""


class Kind(enum.Enum):
    """Column types that map to different schemas, named as in java.sql.Types."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    REAL = "REAL"
    DOUBLE = "DOUBLE"
    NUMERIC = "NUMERIC"
    VARCHAR = "VARCHAR"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True)
class TableId:
    name: str
    schema: str | None = None
    catalog: str | None = None

    def __str__(self) -> str:
        """Return the name used in source partitions: unquoted, with catalog and schema."""
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)


@dataclass(frozen=True)
class Column:
    name: str
    #: None if the type has no schema.
    kind: Kind | None
    optional: bool = True
    precision: int = 0
    scale: int = 0
    #: Whether the column belongs to the table's primary key.
    primary_key: bool = False
    type_name: str = ""
    #: Whether the database assigns increasing values.
    autoincrement: bool = False
    #: Converts the driver's value to the Connect schema's type.
    convert: Callable[[Any], Any] | None = None


class Rows:
    """Rows of a running query, fetched on demand."""

    def __init__(self, cursor: Any, columns: Sequence[Column], close: Callable[[], None]) -> None:
        self.columns = columns
        self._cursor = cursor
        self.close = close

    def fetch(self, most: int) -> Sequence[Sequence[Any]]:
        found: Sequence[Sequence[Any]] = self._cursor.fetchmany(most)
        return found


class Dialect:
    """One lazily opened database connection. Owner: one task."""

    placeholder: ClassVar[str] = "%s"
    quote: ClassVar[str] = '"'
    #: Maximum number of values per statement.
    max_parameters: ClassVar[int] = 32_000
    #: Base class of the driver's exceptions.
    driver_error: type[Exception]

    def __init__(self, target: Target) -> None:
        self.target = target
        self.quote_identifiers = True
        self._connection: Any = None
        try:
            self.timezone: dt.tzinfo = dt.UTC if target.timezone == "UTC" else ZoneInfo(target.timezone)
        except (ZoneInfoNotFoundError, ValueError):
            raise invalid(
                "db.timezone", target.timezone, "Not a time zone of the IANA database, as Europe/Prague."
            ) from None

    # The connection

    @property
    def connection(self) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception:  # The connection was already broken.
                return

    def explained(self, error: Exception, doing: str) -> ConnectError:
        """Convert a driver error to one sentence. Return a RetriableError for transient problems."""
        raise NotImplementedError

    # Reading

    def tables(self, types: Sequence[str], catalog: str | None, schema: str | None) -> list[TableId]:
        raise NotImplementedError

    def columns(self, table: TableId) -> list[Column]:
        """Return the columns of a table with its primary key, or none if the table does not exist."""
        raise NotImplementedError

    def select(self, query: str, parameters: Sequence[Any], table: TableId | None) -> Rows:
        """Run `query`, which contains our placeholders. All rows come from one snapshot."""
        raise NotImplementedError

    def now(self) -> dt.datetime:
        raise NotImplementedError

    def timestamp_parameter(self, value: dt.datetime) -> Any:
        """Convert a UTC time to a parameter for comparison with a column."""
        return value.astimezone(self.timezone).replace(tzinfo=None)

    def timestamp_column(self, column: str) -> str:
        return self.quoted(column)

    def in_utc(self, value: dt.datetime) -> dt.datetime:
        if value.tzinfo is None:
            value = value.replace(tzinfo=self.timezone)
        return value.astimezone(dt.UTC)

    def verbatim(self, query: str) -> str:
        """Escape percent signs in a user's query, which are not placeholders."""
        return query.replace("%", "%%") if self.placeholder == "%s" else query

    # Names

    def quoted(self, *names: str | None) -> str:
        given = [name for name in names if name]
        if not self.quote_identifiers:
            return ".".join(given)
        mark = self.quote
        return ".".join(f"{mark}{name.replace(mark, mark * 2)}{mark}" for name in given)

    def qualified(self, table: TableId) -> str:
        return self.quoted(table.schema, table.name)

    def parse_table(self, name: str) -> TableId:
        schema, _, table = name.rpartition(".")
        return TableId(table, schema or None)

    # Writing

    def transaction(self, statements: Iterable[Statement], claims: Iterable[Claim] = ()) -> None:
        """Run all statements atomically. Raises Overtaken."""
        with self._all_or_nothing(claims) as cursor:
            for statement, rows in statements:
                if len(rows) > 1:
                    cursor.executemany(statement, rows)
                elif rows[0]:
                    cursor.execute(statement, rows[0])
                else:
                    cursor.execute(statement)

    def transaction_by_parts(
        self,
        parts: Iterable[Iterable[Statement]],
        refused: Callable[[int, Exception], None],
        claims: Iterable[Claim] = (),
    ) -> None:
        """Run a transaction, skipping rejected parts. `refused` may raise to roll back everything."""
        with self._all_or_nothing(claims) as cursor:
            for number, statements in enumerate(parts):
                cursor.execute("SAVEPOINT part")
                try:
                    for statement, rows in statements:
                        for row in rows:
                            cursor.execute(statement, row)
                except self.driver_error as error:
                    if isinstance(self.explained(error, "write"), RetriableError):
                        raise
                    cursor.execute("ROLLBACK TO SAVEPOINT part")
                    refused(number, error)
                else:
                    cursor.execute("RELEASE SAVEPOINT part")

    @contextlib.contextmanager
    def _all_or_nothing(self, claims: Iterable[Claim]) -> Iterator[Any]:
        connection = self.connection
        self._begin()
        try:
            with contextlib.closing(connection.cursor()) as cursor:
                for statement, row in claims:
                    cursor.execute(statement, row)
                    if cursor.rowcount != 1:
                        raise Overtaken("Another task has written to the table of offsets in the meantime.")
                yield cursor
            connection.commit()
        except BaseException:
            with contextlib.suppress(self.driver_error):
                connection.rollback()
            raise

    def _begin(self) -> None: ...

    def upsert(self, table: TableId, keys: Sequence[str], others: Sequence[str]) -> str:
        raise NotImplementedError

    def insert(self, table: TableId, columns: Sequence[str], *, ignore_existing: bool = False) -> str:
        raise NotImplementedError

    def update(self, table: TableId, keys: Sequence[str], others: Sequence[str]) -> str:
        assignments = ", ".join(f"{self.quoted(name)} = {self.placeholder}" for name in others)
        return f"UPDATE {self.qualified(table)} SET {assignments} WHERE {self._matching(keys)}"

    def update_if(self, table: TableId, keys: Sequence[str], name: str) -> str:
        """Return an UPDATE of one column, conditional on its old value, which is the last parameter."""
        return f"{self.update(table, keys, [name])} AND {self.quoted(name)} = {self.placeholder}"

    def delete(self, table: TableId, keys: Sequence[str]) -> str:
        return f"DELETE FROM {self.qualified(table)} WHERE {self._matching(keys)}"

    def _matching(self, keys: Sequence[str]) -> str:
        return " AND ".join(f"{self.quoted(name)} = {self.placeholder}" for name in keys)

    def _insert_into(self, table: TableId, columns: Sequence[str], verb: str = "INSERT INTO") -> str:
        names = ", ".join(self.quoted(name) for name in columns)
        marks = ", ".join([self.placeholder] * len(columns))
        return f"{verb} {self.qualified(table)} ({names}) VALUES ({marks})"

    # Sink tables

    #: By Connect type. "{scale}" is replaced for decimals.
    column_types: ClassVar[dict[SchemaType | str, str]]

    def column_type(self, schema: Schema, *, primary_key: bool) -> str:
        by_name = self.column_types.get(schema.name or "")
        if by_name is not None:
            return by_name.format(scale=logical.scale_of(schema) if schema.name == logical.DECIMAL else 0)
        found = self.column_types.get(schema.type)
        if found is None:
            kind = schema.name or schema.type.value
            raise DataError(
                f"{self.target} has no column type for {kind}: flatten the record, for example by the transform "
                "Flatten, or leave the field out by fields.whitelist."
            )
        return found

    def literal(self, value: Any) -> str:
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, dt.datetime):
            value = value.astimezone(self.timezone).replace(tzinfo=None).isoformat(" ", "milliseconds")
        if isinstance(value, str | dt.date | dt.time):
            text = str(value).replace("'", "''")
            return f"'{text}'"
        return str(value)

    def parameter(self, schema: Schema | None, value: Any) -> Any:
        if isinstance(value, dt.datetime):
            return self.timestamp_parameter(self.in_utc_unless_aware(value))
        return value

    def in_utc_unless_aware(self, value: dt.datetime) -> dt.datetime:
        return value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)

    def create_table(self, table: TableId, columns: Sequence[tuple[str, Schema]], keys: Sequence[str]) -> str:
        lines = [f"  {self._column(name, schema, primary_key=name in keys)}" for name, schema in columns]
        if keys:
            lines.append(f"  PRIMARY KEY({', '.join(self.quoted(name) for name in keys)})")
        return f"CREATE TABLE {self.qualified(table)} (\n" + ",\n".join(lines) + "\n)"

    def add_columns(self, table: TableId, columns: Sequence[tuple[str, Schema]]) -> list[str]:
        added = ", ".join(f"ADD {self._column(name, schema, primary_key=False)}" for name, schema in columns)
        return [f"ALTER TABLE {self.qualified(table)} {added}"]

    def _column(self, name: str, schema: Schema, *, primary_key: bool) -> str:
        text = f"{self.quoted(name)} {self.column_type(schema, primary_key=primary_key)}"
        if schema.default is not None:
            return f"{text} DEFAULT {self.literal(schema.default)}"
        return f"{text} NULL" if schema.optional and not primary_key else f"{text} NOT NULL"
