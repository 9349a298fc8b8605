"""Writes of micro-batches to a database table, with Spark's JDBC writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Databases, as named in their URLs, by upsert syntax.
_ON_CONFLICT = ("postgresql", "sqlite")
_ON_DUPLICATE_KEY = ("mysql", "mariadb")
_MERGE = ("derby", "h2")


@dataclass(frozen=True)
class Jdbc:
    url: str
    table: str
    mode: str = "append"
    key: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.table

    def check(self) -> None:
        if self.mode == "upsert":
            upsert(self.url, self.table, "staging", self.key, self.key)

    def write(self, rows: DataFrame, batch: int | None = None) -> None:
        if self.mode == "upsert":
            self._upsert(rows)
            return
        properties = {"truncate": "true", **self.properties}
        rows.write.jdbc(self.url, self.table, mode=self.mode, properties=properties)

    def _upsert(self, rows: DataFrame) -> None:
        from py4j.protocol import Py4JJavaError

        staging = f"{self.table}_ottla_staging"
        names = self._names(rows)
        columns, key = [names[name] for name in rows.columns], [names[name] for name in self.key]
        statement = upsert(self.url, self.table, staging, columns, key)
        with self._statements(rows.sparkSession) as statements:
            # The staging table remains only after a failure, and not every database has IF EXISTS.
            with suppress(Py4JJavaError):
                statements.execute(f"DROP TABLE {staging}")
            selected = ", ".join(columns)
            statements.execute(
                f"CREATE TABLE {staging} AS SELECT {selected} FROM {self.table} {_empty(self.url)}"
            )
            rows.write.jdbc(self.url, staging, mode="append", properties=self.properties)
            statements.execute(statement)
            statements.execute(f"DROP TABLE {staging}")

    def _names(self, rows: DataFrame) -> dict[str, str]:
        """Return the columns in the database's spelling, quoted. Spark ignores case."""
        existing = rows.sparkSession.read.jdbc(self.url, self.table, properties=self.properties).columns
        spelt = {name.lower(): name for name in existing}
        missing = [name for name in (*rows.columns, *self.key) if name.lower() not in spelt]
        if missing:
            raise OptionError(f"Table {self.table} has no column '{missing[0]}', only {', '.join(existing)}.")
        quote = "`" if _database(self.url) in _ON_DUPLICATE_KEY else '"'
        return {name: quote + spelt[name.lower()] + quote for name in (*rows.columns, *self.key)}

    @contextmanager
    def _statements(self, spark: SparkSession) -> Iterator[Any]:
        """Open a connection like Spark, with the same driver and properties."""
        jvm = spark._jvm
        options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(
            self.url, self.table, jvm.PythonUtils.toScalaMap(self.properties)
        )
        connection = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.url).createConnectionFactory(options)
        connection = connection.apply(-1)
        try:
            statement = connection.createStatement()
            yield statement
            statement.close()
        finally:
            connection.close()


def upsert(url: str, table: str, staging: str, columns: Sequence[str], key: Sequence[str]) -> str:
    """Return the statement that upserts all rows of `staging` into the table."""
    database = _database(url)
    names = ", ".join(columns)
    others = [name for name in columns if name not in key]
    if database in _ON_CONFLICT:
        update = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {update}" if others else "NOTHING"
        # Without WHERE, SQLite parses ON as part of a join.
        return (
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {staging} WHERE true "
            f"ON CONFLICT ({', '.join(key)}) DO {action}"
        )
    if database in _ON_DUPLICATE_KEY:
        update = ", ".join(f"{name} = VALUES({name})" for name in others or key)
        return f"INSERT INTO {table} ({names}) SELECT {names} FROM {staging} ON DUPLICATE KEY UPDATE {update}"
    if database not in _MERGE:
        raise OptionError(
            f"mode='upsert' is not known for {database}, only for "
            f"{', '.join(sorted((*_ON_CONFLICT, *_ON_DUPLICATE_KEY, *_MERGE)))}: use foreachBatch."
        )
    same = " AND ".join(f"t.{name} = s.{name}" for name in key)
    update = ", ".join(f"t.{name} = s.{name}" for name in others)
    matched = f"WHEN MATCHED THEN UPDATE SET {update} " if others else ""
    values = ", ".join(f"s.{name}" for name in columns)
    return (
        f"MERGE INTO {table} t USING {staging} s ON {same} {matched}"
        f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    )


def _empty(url: str) -> str:
    return "WITH NO DATA" if _database(url) in _MERGE else "WHERE 1 = 0"


def _database(url: str) -> str:
    parts = url.split(":")
    if len(parts) < 3 or parts[0] != "jdbc":
        raise OptionError(
            f"'{url}' is not the URL of a database: it must be like jdbc:postgresql://host/name."
        )
    return parts[1]
