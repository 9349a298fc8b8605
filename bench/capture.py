"""``python -m bench.capture``: how many changes a second are captured from a database and made JSON, by one process.

The server is a real one on this machine, which writes its log before the clock starts. Neither Spark nor a broker takes
part: what is measured is the connector's task and the converter.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from ottla.connect.api import SourceConnector
from ottla.connect.converters.json_converter import JsonConverter
from ottla.testing.connect import SourceHarness
from tests.connect.connectors import mariadb, postgres

_COLUMNS = "id INT PRIMARY KEY, customer INT NOT NULL, amount DECIMAL(10, 2), at {time}, note VARCHAR(50), paid BOOLEAN"
_PER_TRANSACTION = 10


@contextmanager
def postgres_changes(count: int) -> Iterator[SourceHarness]:
    from ottla.connect.connectors.cdc.postgres.connector import PostgresConnector

    with postgres.PostgresServer() as server:
        database = postgres.PostgresDatabase(server)
        database.run(f"CREATE TABLE orders ({_COLUMNS.format(time='TIMESTAMP')})")
        where = {"database.dbname": database.name, "database.password": postgres.PASSWORD}
        rows = "SELECT n, n % 100, n * 1.25, now(), 'note ' || n, true FROM generate_series({}, {}) AS n"
        yield from _capturing(PostgresConnector, server, database, where, rows, count)


@contextmanager
def mariadb_changes(count: int) -> Iterator[SourceHarness]:
    from ottla.connect.connectors.cdc.mysql.connector import MariaDbConnector

    with mariadb.MariaDbServer() as server:
        database = mariadb.MariaDbDatabase(server)
        database.run(f"CREATE TABLE orders ({_COLUMNS.format(time='DATETIME(6)')})")
        where = {"database.include.list": database.name, "database.password": mariadb.PASSWORD}
        rows = "SELECT seq, seq % 100, seq * 1.25, now(6), concat('note ', seq), true FROM seq_{}_to_{}"
        yield from _capturing(MariaDbConnector, server, database, where, rows, count)


def _capturing(
    connector: type[SourceConnector], server: Any, database: Any, where: dict[str, str], rows: str, count: int
) -> Iterator[SourceHarness]:
    config = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": server.user,
        "topic.prefix": "bench",
        "snapshot.mode": "no_data",
        "poll.interval.ms": "0",
        **where,
    }
    with SourceHarness(connector, config) as harness:
        harness.poll()
        with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for first in range(0, count, _PER_TRANSACTION):
                cursor.execute(f"INSERT INTO orders {rows.format(first, first + _PER_TRANSACTION - 1)}")
                connection.commit()
        yield harness


def measure(harness: SourceHarness, count: int) -> tuple[float, float]:
    """Changes a second of the clock, and of the time that this process computes."""
    (task,) = harness._tasks
    keys, values = JsonConverter(), JsonConverter()
    keys.configure({"schemas.enable": "false"}, is_key=True)
    values.configure({"schemas.enable": "false"}, is_key=False)
    clock, computing, seen = time.perf_counter(), time.process_time(), 0
    while seen < count:
        records = task.poll()
        for record in records:
            keys.from_connect(record.topic, record.key_schema, record.key)
            values.from_connect(record.topic, record.value_schema, record.value)
        seen += len(records)
        task.commit()
    return seen / (time.perf_counter() - clock), seen / (time.process_time() - computing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=60_000)
    count = parser.parse_args().changes // _PER_TRANSACTION * _PER_TRANSACTION
    table = Table(title=f"{count} inserted rows of six columns, {_PER_TRANSACTION} in a transaction, as JSON")
    for column in ("database", "changes/s", "changes/s of computing"):
        table.add_column(column, justify="left" if column == "database" else "right")
    for name, changes in (("PostgreSQL", postgres_changes), ("MariaDB", mariadb_changes)):
        try:
            with changes(count) as harness:
                rates = measure(harness, count)
        except pytest.skip.Exception as reason:
            print(reason, file=sys.stderr)
            continue
        table.add_row(name, *(f"{rate:,.0f}" for rate in rates))
    Console().print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
