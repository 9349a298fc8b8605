from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_connector import SqliteSink, SqliteSource

from ottla.connect import ConfigError, ConnectError
from ottla.testing.connect import SinkHarness, SourceHarness, check_sink, check_source


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (customer TEXT, amount REAL)")
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?)", [(f"customer-{n % 3}", n / 2) for n in range(40)]
        )
    return path


def test_each_row_becomes_a_record_exactly_once(database: Path) -> None:
    config = {"database": str(database), "table": "orders", "topic": "orders", "batch.size": "7"}
    records = check_source(SqliteSource, lambda: config)
    assert len(records) == 40
    assert records[3].value == {"customer": "customer-0", "amount": 1.5}


def test_rows_that_are_added_later_follow(database: Path) -> None:
    config = {"database": str(database), "table": "orders", "topic": "orders"}
    with SourceHarness(SqliteSource, config) as source:
        assert len(source.run()) == 40
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("INSERT INTO orders VALUES ('late', 1)")
        assert source.run()[-1].value == {"customer": "late", "amount": 1.0}


def test_each_record_becomes_a_row_exactly_once(tmp_path: Path) -> None:
    path = tmp_path / "copy.db"

    def fresh() -> dict[str, str]:
        path.unlink(missing_ok=True)
        return {"database": str(path), "table": "copies"}

    def send(sink: SinkHarness) -> None:
        for number in range(20):
            sink.send("orders", {"n": number}, partition=number % 2)

    def stored() -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("SELECT part, offset_, value FROM copies ORDER BY 1, 2").fetchall()

    rows = check_sink(SqliteSink, fresh, send, stored)
    assert len(rows) == 20  # type: ignore[arg-type]
    assert rows[0] == (0, 0, '{"n": 0}')  # type: ignore[index]


def test_bad_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='Missing required configuration "table"'):
        SourceHarness(SqliteSource, {"database": "x", "topic": "t"})
    nowhere = {"database": str(tmp_path / "no" / "such.db"), "table": "t", "topic": "t"}
    with SourceHarness(SqliteSource, nowhere) as source, pytest.raises(ConnectError, match="Cannot open"):
        source.poll()
