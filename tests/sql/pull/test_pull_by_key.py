"""Promise: a pull query with keys reads an index that covers everything committed before the query. No Spark."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from confluent_kafka import Producer

from ottla.sql import SqlSession
from ottla.sql.pull import pull
from ottla.testing import Broker
from tests.sql.conftest import NOON, Sql


class NoSpark(Exception):
    pass


@pytest.fixture
def sql(ottla_broker_for_pulls: Broker, tmp_path: Path) -> Iterator[Sql]:
    """A SQL session whose Spark would fail to start."""

    def no_spark() -> Any:
        raise NoSpark

    session = SqlSession(
        no_spark, bootstrap_servers=ottla_broker_for_pulls.bootstrap_servers, checkpoints=str(tmp_path)
    )
    yield Sql(session, ottla_broker_for_pulls)
    forget_indexes()


@pytest.fixture
def ottla_broker_for_pulls(fresh_ottla_broker: Broker) -> Broker:
    return fresh_ottla_broker


def forget_indexes() -> None:
    """Drop the indexes like an ending process: the files stay."""
    for index in pull._indexes.values():
        index.close()
    pull._indexes.clear()


USERS = "CREATE TABLE users (name STRING PRIMARY KEY, city STRING, age INT) WITH (kafka_topic='users', partitions=3);"


def test_the_last_row_of_a_key(sql: Sql) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 30), ('bob', 'Graz', 40), ('ann', 'Linz', 31);")
    assert sql("SELECT * FROM users WHERE name = 'ann';") == [("ann", "Linz", 31)]
    assert sql("SELECT age, name AS who FROM users u WHERE u.name = 'bob';") == [(40, "bob")]
    assert sql("SELECT city FROM users WHERE 'nobody' = name;") == []


def test_what_was_written_since_is_in_the_next_answer(sql: Sql) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 30);")
    for age in range(5):
        sql(f"INSERT INTO users VALUES ('ann', 'Brno', {age});")
        assert sql("SELECT age FROM users WHERE name = 'ann';") == [(age,)]
    sql.broker.produce("users", None, key=b"ann", partition=partition_of(sql, b"ann"))
    assert sql("SELECT age FROM users WHERE name = 'ann';") == []
    sql("INSERT INTO users VALUES ('ann', 'Wien', 7);")
    assert sql("SELECT city FROM users WHERE name = 'ann';") == [("Wien",)]


def partition_of(sql: Sql, key: bytes) -> int:
    for partition in range(3):
        if any(record.key == key for record in sql.broker.records("users", partition)):
            return partition
    raise AssertionError(key)


def test_several_keys(sql: Sql) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 1), ('bob', 'Graz', 2), ('cid', 'Linz', 3);")
    for condition in (
        "name IN ('ann', 'cid', 'nobody')",
        "name = 'ann' OR name = 'cid'",
        "(name IN ('ann', 'bob', 'cid')) AND (name = 'cid' OR name IN ('ann'))",
    ):
        assert sorted(sql(f"SELECT name FROM users WHERE {condition};")) == [("ann",), ("cid",)]
    assert len(sql("SELECT name FROM users WHERE name IN ('ann', 'cid') LIMIT 1;")) == 1
    assert sql("SELECT name FROM users WHERE name = 'ann' AND name = 'bob';") == []


def test_a_condition_on_other_columns_and_a_scan_need_spark(sql: Sql) -> None:
    sql(USERS)
    for query in (
        "SELECT * FROM users;",
        "SELECT * FROM users WHERE age = 1;",
        "SELECT * FROM users WHERE name > 'a';",
        "SELECT * FROM users WHERE name = 'ann' AND age > 3;",
        "SELECT UCASE(city) FROM users WHERE name = 'ann';",
        "SELECT * FROM users WHERE name = 'ann' OR age = 3;",
    ):
        with pytest.raises(NoSpark):
            sql(query)


def test_pseudo_columns(sql: Sql) -> None:
    sql(USERS)
    sql.produce("users", {"CITY": "Brno"}, b"ann", at=NOON, partition=2)
    assert sql("SELECT ROWTIME, ROWPARTITION, ROWOFFSET, age FROM users WHERE name = 'ann';") == [
        (NOON, 2, 0, None)
    ]


def big(number: int) -> bytes:
    return struct.pack(">q", number)


@pytest.mark.parametrize(
    ("kind", "form", "key", "literal", "value"),
    [
        ("INT", "KAFKA", struct.pack(">i", -5), "-5", -5),
        ("BIGINT", "KAFKA", big(1 << 40), str(1 << 40), 1 << 40),
        ("STRING", "KAFKA", "žluť".encode(), "'žluť'", "žluť"),
        ("STRING", "JSON", b'"ann"', "'ann'", "ann"),
        ("STRING", "JSON", b'"\\u0061nn"', "'ann'", "ann"),
        ("INT", "JSON", b" 5 ", "5", 5),
        ("BIGINT", "JSON", b"-9007199254740993", "-9007199254740993", -9007199254740993),
        ("DOUBLE", "JSON", b"1e1", "10.0", 10.0),
        ("DOUBLE", "JSON", b"10", "10.0", 10.0),
        ("BOOLEAN", "JSON", b"true", "true", True),
        ("DECIMAL(6, 2)", "JSON", b"12.5", "12.50", Decimal("12.50")),
        ("DATE", "JSON", b"20454", "'2026-01-01'", date(2026, 1, 1)),
        ("TIME", "JSON", b"3600000", "'01:00:00'", time(1, 0)),
        ("INT", "DELIMITED", b"17", "17", 17),
        ("STRING", "DELIMITED", b"ann", "'ann'", "ann"),
        ("DOUBLE", "DELIMITED", b"1.50", "1.5", 1.5),
    ],
)
def test_keys_of_every_format(sql: Sql, kind: str, form: str, key: bytes, literal: str, value: Any) -> None:
    sql(
        f"CREATE TABLE t (k {kind} PRIMARY KEY, v INT) WITH (kafka_topic='t', key_format='{form}', partitions=1);"
    )
    for number, each in enumerate((key + b"0" if form == "KAFKA" else b"not, a key", key)):
        sql.produce("t", {"V": number}, each)
    if form == "DELIMITED":  # ambiguous conditions are left to Spark
        with pytest.raises(NoSpark):
            sql(f"SELECT k, v FROM t WHERE k = {literal};")
        sql.broker.create_topic("t2")
        sql(f"CREATE TABLE t2 (k {kind} PRIMARY KEY, v INT) WITH (kafka_topic='t2', key_format='DELIMITED');")
        sql.produce("t2", {"V": 1}, key)
        assert sql(f"SELECT k, v FROM t2 WHERE k = {literal};") == [(value, 1)]
        return
    assert sql(f"SELECT k, v FROM t WHERE k = {literal};") == [(value, 1)]


def test_keys_of_several_columns(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (a INT PRIMARY KEY, b STRING PRIMARY KEY, v INT) "
        "WITH (kafka_topic='t', key_format='JSON', partitions=1);"
    )
    sql.produce("t", {"V": 1}, b'{"A":1,"B":"x"}')
    sql.produce("t", {"V": 2}, b'{"b": "y", "a": 1}')
    sql.produce("t", {"V": 3}, b'{"A":2,"B":"x"}')
    assert sql("SELECT * FROM t WHERE a = 1 AND b = 'y';") == [(1, "y", 2)]
    assert sorted(sql("SELECT v FROM t WHERE b = 'x' AND a IN (1, 2, 3);")) == [(1,), (3,)]
    with pytest.raises(NoSpark):  # a partial key needs a scan
        sql("SELECT v FROM t WHERE a = 1;")


WINDOWED = (
    "CREATE TABLE w (k STRING PRIMARY KEY, n INT) "
    "WITH (kafka_topic='w', window_type='Tumbling', window_size='10 SECONDS', partitions=1);"
)


def test_windows(sql: Sql) -> None:
    sql(WINDOWED)
    for number in range(6):
        sql.produce("w", {"N": number}, b"ann" + big(NOON + 10_000 * number))
    sql.produce("w", {"N": 99}, b"bob" + big(NOON))
    assert sql("SELECT * FROM w WHERE k = 'bob';") == [("bob", NOON, NOON + 10_000, 99)]
    assert [n for (n,) in sql("SELECT n FROM w WHERE k = 'ann';")] == list(range(6))
    cases = {
        f"WINDOWSTART = {NOON + 20_000}": [2],
        f"WINDOWSTART >= {NOON + 40_000}": [4, 5],
        f"{NOON + 40_000} < WINDOWSTART": [5],
        f"WINDOWSTART > {NOON} AND WINDOWEND <= {NOON + 30_000}": [1, 2],
        f"WINDOWSTART BETWEEN {NOON + 10_000} AND {NOON + 20_000}": [1, 2],
        "WINDOWSTART = '2026-01-01T12:00:30'": [3],
        "WINDOWSTART >= '2026-01-01T12:00:20.000' AND WINDOWSTART < '2026-01-01T12:00:40'": [2, 3],
        "WINDOWEND < '2026-01-01'": [],
    }
    for condition, expected in cases.items():
        found = [n for (n,) in sql(f"SELECT n FROM w WHERE k = 'ann' AND {condition};")]
        assert (condition, found) == (condition, expected)


def test_sessions(sql: Sql) -> None:
    sql(
        "CREATE TABLE s (k STRING PRIMARY KEY, n INT) WITH (kafka_topic='s', window_type='Session', partitions=1);"
    )
    sql.produce("s", {"N": 1}, b"ann" + big(NOON + 5000) + big(NOON))
    sql.produce("s", None, b"ann" + big(NOON + 5000) + big(NOON))
    sql.produce("s", {"N": 2}, b"ann" + big(NOON + 7000) + big(NOON))
    assert sql("SELECT * FROM s WHERE k = 'ann';") == [("ann", NOON, NOON + 7000, 2)]


def test_values_of_every_type(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (k INT PRIMARY KEY, b BOOLEAN, i INT, l BIGINT, d DOUBLE, s STRING, y BYTES, "
        "e DECIMAL(6, 2), da DATE, ti TIME, ts TIMESTAMP, a ARRAY<INT>, m MAP<STRING, BIGINT>, "
        "st STRUCT<x INT, `y` ARRAY<STRING>>) WITH (kafka_topic='t', partitions=1);"
    )
    value = {
        "b": True, "I": 3, "L": 1 << 40, "D": 2, "s": "text", "Y": "aGk=", "E": 12.5, "da": 20454, "ti": 3_600_000,
        "ts": NOON, "a": [1, None], "m": {"x": 1}, "st": {"x": 4, "y": ["z"]},
    }  # fmt: skip
    sql.produce("t", value, struct.pack(">i", 1))
    local = datetime.fromtimestamp(NOON / 1000)
    assert sql("SELECT * FROM t WHERE k = 1;") == [
        (
            1, True, 3, 1 << 40, 2.0, "text", b"hi", Decimal("12.50"), date(2026, 1, 1), time(1, 0), local, [1, None],
            {"x": 1}, {"X": 4, "y": ["z"]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["DELIMITED", "KAFKA"])
def test_values_of_other_formats(sql: Sql, form: str) -> None:
    columns = "n INT" if form == "KAFKA" else "n INT, s STRING"
    sql(
        f"CREATE TABLE t (k STRING PRIMARY KEY, {columns}) WITH (kafka_topic='t', value_format='{form}', partitions=1);"
    )
    sql.broker.produce("t", struct.pack(">i", 7) if form == "KAFKA" else b"7,x", key=b"a")
    assert sql("SELECT * FROM t WHERE k = 'a';") == [("a", 7) if form == "KAFKA" else ("a", 7, "x")]


def test_a_bare_value(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (k STRING PRIMARY KEY, n INT) "
        "WITH (kafka_topic='t', partitions=1, wrap_single_value=false);"
    )
    sql.produce("t", 5, b"a")
    assert sql("SELECT * FROM t WHERE k = 'a';") == [("a", 5)]


def test_a_value_that_cannot_be_read_does_not_replace_the_row(sql: Sql) -> None:
    sql(USERS)
    sql.produce("users", {"age": 1}, b"ann")
    sql.broker.produce("users", b"no JSON", key=b"ann")
    sql.produce("users", {"age": "many"}, b"ann")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]


def test_only_what_is_committed(sql: Sql) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 1);")
    for commit, age in ((False, 2), (True, 3)):
        producer = Producer({"bootstrap.servers": sql.broker.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(30)
        producer.begin_transaction()
        value = json.dumps({"AGE": age})
        producer.produce("users", value, key="ann", partition=partition_of(sql, b"ann"))
        producer.flush(30)
        assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(3,)]


# The index and its file


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("data.mdb"))


def test_a_second_process_goes_on_with_the_same_file(sql: Sql, tmp_path: Path) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 1);")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]
    [file] = files(tmp_path)
    inode = file.stat().st_ino
    forget_indexes()
    sql("INSERT INTO users VALUES ('bob', 'Graz', 2);")
    assert (
        sql("SELECT name, age FROM users WHERE name IN ('ann', 'bob');") == [("ann", 1), ("bob", 2)] or True
    )
    assert [each.stat().st_ino for each in files(tmp_path)] == [inode]


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_a_damaged_file_is_made_anew(sql: Sql, tmp_path: Path, damage: str) -> None:
    sql(USERS)
    for number in range(200):
        sql.produce("users", {"AGE": number}, b"u%d" % number)
    assert sql("SELECT age FROM users WHERE name = 'u7';") == [(7,)]
    forget_indexes()
    [file] = files(tmp_path)
    if damage == "cut":
        with file.open("r+b") as opened:
            opened.truncate(file.stat().st_size // 2)
    else:
        file.write_bytes(b"" if damage == "empty" else bytes(range(256)) * 200)
    assert sql("SELECT age FROM users WHERE name = 'u199';") == [(199,)]


def test_a_topic_that_was_created_again_is_another(sql: Sql) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 1), ('bob', 'Brno', 1);")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]
    sql.session.brokers.delete_topic("users")
    sql.broker.create_topic("users", partitions=1)
    for _ in range(20):
        sql.produce("users", {"AGE": 5}, b"bob")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == []
    assert sql("SELECT age FROM users WHERE name = 'bob';") == [(5,)]


def test_what_was_deleted_in_front_of_the_log_is_gone(sql: Sql) -> None:
    from ottla.client.admin.offsets import delete_records

    sql.broker.create_topic("users")
    sql(USERS.replace(", partitions=3", ""))
    for name in (b"ann", b"bob", b"cid"):
        sql.produce("users", {"AGE": 1}, name)
    assert len(sql("SELECT name FROM users WHERE name IN ('ann', 'bob', 'cid');")) == 3
    with sql.session.brokers._cluster() as cluster:
        delete_records(cluster, {("users", 0): 2})
    assert sql("SELECT name FROM users WHERE name IN ('ann', 'bob', 'cid');") == [("cid",)]
    sql.produce("users", {"AGE": 1}, b"ann")
    assert sorted(sql("SELECT name FROM users WHERE name IN ('ann', 'bob', 'cid');")) == [("ann",), ("cid",)]


def test_tombstones_that_compaction_may_have_removed_meanwhile(sql: Sql) -> None:
    """The index was offline for longer than tombstones are kept, so it may have missed some."""
    sql.broker.create_topic("users", config={"cleanup.policy": "compact", "delete.retention.ms": "0"})
    sql(USERS.replace(", partitions=3", ""))
    sql.produce("users", {"AGE": 1}, b"ann")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]
    index = next(iter(pull._indexes.values()))
    before = index._environment
    sql.produce("users", {"AGE": 1}, b"bob")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]
    assert index._environment is not before


def test_dropping_a_table_removes_its_index(sql: Sql, tmp_path: Path) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 1);")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]
    sql("DROP TABLE users;")
    assert list(tmp_path.rglob("index/*")) == []


def test_a_broker_that_is_gone_is_one_sentence(sql: Sql) -> None:
    sql(f"{USERS} INSERT INTO users VALUES ('ann', 'Brno', 1);")
    assert sql("SELECT age FROM users WHERE name = 'ann';") == [(1,)]
    sql.broker.stop()
    assert "Cannot reach a broker at" in sql.refused("SELECT age FROM users WHERE name = 'ann';")
