"""Promise: a pull query returns the same rows from the index and from a Spark scan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from confluent_kafka import Producer

from ottla.sql import SqlSession
from ottla.sql.pull import pull
from tests.sql.conftest import NOON, Sql

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _indexes() -> Iterator[None]:
    yield
    for index in pull._indexes.values():
        index.close()
    pull._indexes.clear()


def scanned(sql: Sql, query: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    with monkeypatch.context() as patch:
        patch.setattr(pull, "bounds", lambda plan: None)
        return sorted(sql(query), key=repr)


def test_answers_are_those_of_a_scan(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(
        "CREATE TABLE t (k STRING PRIMARY KEY, i INT, d DOUBLE, e DECIMAL(5, 2), ts TIMESTAMP, da DATE, ti TIME, "
        "a ARRAY<STRUCT<x INT>>, m MAP<STRING, DATE>) WITH (kafka_topic='t', partitions=1);"
    )
    values: list[Any] = [
        {"I": 1, "d": 1, "e": 1.5, "TS": NOON, "DA": 1, "TI": 5, "a": [{"X": 1}, None], "m": {"a": 3}},
        {"i": None, "D": "NaN", "ts": "2026-01-01T12:00:00Z", "DA": "2026-01-01", "TI": "01:02:03"},
        {"I": 1 << 40},
        {"TS": "no time", "TI": 86_400_000},
        {"e": 12345.67},
        {"a": "none"},
        [1, 2],
        "text",
        {},
    ]
    for number, value in enumerate(values):
        sql.produce("t", {"I": -1}, b"k%d" % number, at=NOON)
        sql.produce("t", value, b"k%d" % number, at=NOON)
    # One scan for all, because each takes a Spark job.
    columns = "k, i, d, e, ts, da, ti, a, m, ROWTIME, ROWOFFSET"
    expected = {row[0]: [row] for row in scanned(sql, f"SELECT {columns} FROM t;", monkeypatch)}
    for number in range(len(values)):
        found = sql(f"SELECT {columns} FROM t WHERE k = 'k{number}';")
        assert repr(found) == repr(expected.get(f"k{number}", []))
    query = "SELECT UCASE(k) AS u, i + 1 AS n FROM t WHERE k IN ('k0', 'k1', 'k2') AND COALESCE(i, 0) < 5;"
    assert sorted(sql(query), key=repr) == scanned(sql, query, monkeypatch)


def test_delimited_rows_are_those_of_a_scan(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(
        "CREATE TABLE t (a INT PRIMARY KEY, b STRING PRIMARY KEY, n DOUBLE, s STRING) "
        "WITH (kafka_topic='t', format='DELIMITED', partitions=1);"
    )
    rows = [(b"1,x", b"1.5,y"), (b"2,x", b"2,"), (b"3,x", b'3,"a,b"'), (b"4,x", b"many,y"), (b"1,x", b"7,z")]
    for key, value in rows:
        sql.broker.produce("t", value, key=key)
    expected = {row[0]: [row] for row in scanned(sql, "SELECT * FROM t;", monkeypatch)}
    for number in range(1, 5):
        found = sql(f"SELECT * FROM t WHERE a = {number} AND b = 'x';")
        assert found == expected.get(number, [])
    # A quoted key may equal an unquoted one.
    sql.broker.produce("t", b"9,q", key=b'1,"x"')
    assert sorted(sql("SELECT n FROM t WHERE a = 1 AND b = 'x';")) == [(7.0,), (9.0,)]


def test_a_windowed_count_is_pulled_while_it_is_counted(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    sql(
        "CREATE STREAM s (who STRING) WITH (kafka_topic='s', partitions=2); "
        "CREATE TABLE c AS SELECT who, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY who;"
    )
    query = f"SELECT n, WINDOWSTART FROM c WHERE who = 'ann' AND WINDOWSTART >= {NOON + 10_000};"
    for number in range(3):
        for second in (0, 10, 20):
            sql.produce("s", {"WHO": "ann"}, at=NOON + 1000 * second)
        sql.settle()
        assert sorted(sql(query)) == [(number + 1, NOON + 10_000), (number + 1, NOON + 20_000)]
    assert sorted(sql(query)) == scanned(sql, query, monkeypatch)


@pytest.mark.peers
def test_a_table_of_apache_kafka(apache_kafka: str, tmp_path: Path) -> None:
    def no_spark() -> Any:
        raise AssertionError("this statement must not need Spark")

    session = SqlSession(no_spark, bootstrap_servers=apache_kafka, checkpoints=str(tmp_path))
    session.execute(
        "CREATE OR REPLACE TABLE pulled (k BIGINT PRIMARY KEY, v STRING) WITH (kafka_topic='pulled', partitions=2);"
    )
    session.execute("INSERT INTO pulled VALUES (1, 'a'), (2, 'b'), (1, 'c');")

    def value(key: int) -> list[Any]:
        return [v for (v,) in session.execute(f"SELECT v FROM pulled WHERE k = {key};")[0].rows]

    assert (value(1), value(2), value(3)) == (["c"], ["b"], [])
    producer = Producer({"bootstrap.servers": apache_kafka, "transactional.id": "pulled"})
    producer.init_transactions(30)
    for commit in (False, True):
        producer.begin_transaction()
        producer.produce("pulled", '{"V": "d"}', key=(3).to_bytes(8, "big"), partition=0)
        producer.flush(30)
        assert value(3) == []
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert value(3) == ["d"]
