"""Queries with our own state: they resume after a restart, without a local copy, and serve rows to readers."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from ottla.spark.state import places
from tests.sql.conftest import NOON, Sql


def forget_copies(checkpoints: Path) -> int:
    """Delete the local copies, as on another machine; return their number."""
    copies = [
        each
        for each in places._root().iterdir()
        if (each / "checkpoint").exists() and (each / "checkpoint").read_text().startswith(str(checkpoints))
    ]
    for each in copies:
        shutil.rmtree(each)
    return len(copies)


def test_a_join_goes_on_from_its_checkpoint_without_a_copy(sql: Sql, tmp_path: Path) -> None:
    from ottla.sql import SqlSession

    script = (
        "CREATE STREAM s (k INT KEY, x INT) WITH (kafka_topic='s', partitions=2);"
        "CREATE TABLE t (k INT PRIMARY KEY, y INT) WITH (kafka_topic='t', partitions=2);"
        "CREATE STREAM o WITH (partitions=1) AS SELECT s.k AS k, x, y FROM s LEFT JOIN t ON s.k = t.k;"
    )
    sql(script)
    for key in range(6):
        sql.produce("t", {"y": key * 10}, key=key.to_bytes(4, "big"), at=NOON, partition=key % 2)
    sql.settle()
    sql.produce("s", {"x": 1}, key=(1).to_bytes(4, "big"), at=NOON + 1)
    sql.settle()
    sql.session.stop()
    assert forget_copies(tmp_path) == 1
    sql.broker.produce("t", None, key=(3).to_bytes(4, "big"), timestamp=NOON + 2, partition=1)
    sql.session = SqlSession(
        sql.session.engine.spark,
        bootstrap_servers=sql.broker.bootstrap_servers,
        checkpoints=str(tmp_path / "checkpoints"),
    )
    sql.session.execute(script, resume=True)
    for key in (2, 3, 9):
        sql.produce("s", {"x": key}, key=key.to_bytes(4, "big"), at=NOON + 3)
    sql.settle()
    found = {(int.from_bytes(key or b"", "big"), each["X"], each["Y"]) for key, each in sql.records("O")}
    assert found == {(1, 1, 10), (2, 2, 20), (3, 3, None), (9, 9, None)}


def test_a_reader_sees_the_rows_of_a_join(sql: Sql) -> None:
    sql(
        "CREATE TABLE l (k STRING PRIMARY KEY, a INT) WITH (kafka_topic='l', partitions=1);"
        "CREATE TABLE r (k STRING PRIMARY KEY, b INT) WITH (kafka_topic='r', partitions=1);"
    )
    sql.produce("l", {"a": 1}, key=b"x", at=NOON)
    sql.produce("r", {"b": 2}, key=b"x", at=NOON + 1)
    rows = sql("SELECT ROWKEY, a, b FROM l FULL JOIN r ON l.k = r.k EMIT CHANGES LIMIT 2;")
    assert rows == [("x", 1, None), ("x", 1, 2)]
    assert sql("SELECT l.k, a, b FROM l JOIN r ON l.k = r.k;") == [("x", 1, 2)]


def test_joins_of_many_records_are_what_plain_python_makes_of_them(sql: Sql) -> None:
    sql(
        "CREATE TABLE l (k INT PRIMARY KEY, f INT, a INT) WITH (kafka_topic='l', partitions=2);"
        "CREATE TABLE r (k INT PRIMARY KEY, b INT) WITH (kafka_topic='r', partitions=2);"
        "CREATE TABLE every AS SELECT ROWKEY AS k, a, b FROM l FULL JOIN r ON l.k = r.k;"
        "CREATE TABLE referring AS SELECT l.k AS k, a, b FROM l LEFT JOIN r ON l.f = r.k;"
    )
    chance = random.Random(11)
    left: dict[int, tuple[int, int]] = {}
    right: dict[int, int] = {}
    at = NOON
    for _ in range(3):
        for _ in range(150):
            at += 1
            key, deleted = chance.randrange(12), chance.random() < 0.2
            written = key.to_bytes(4, "big")
            if chance.random() < 0.5:
                value = (chance.randrange(12), at)
                left.pop(key, None)
                if not deleted:
                    left[key] = value
                body = None if deleted else {"f": value[0], "a": value[1] - NOON}
                sql.produce("l", body, key=written, at=at, partition=key % 2)
            else:
                right.pop(key, None)
                if not deleted:
                    right[key] = at - NOON
                sql.produce("r", None if deleted else {"b": at - NOON}, key=written, at=at, partition=key % 2)
        sql.settle()
        every = {
            (key, left[key][1] - NOON if key in left else None, right.get(key)) for key in {*left, *right}
        }
        assert set(sql("SELECT k, a, b FROM every;")) == every
        referring = {(key, a - NOON, right.get(f)) for key, (f, a) in left.items()}
        assert set(sql("SELECT k, a, b FROM referring;")) == referring
