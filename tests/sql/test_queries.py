"""Continuous queries: their output is compared with plain Python over the same records."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sql.conftest import NOON, Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import Broker


def test_a_push_query_gives_rows_as_they_come_until_its_limit(sql: Sql) -> None:
    sql("CREATE STREAM t (k STRING KEY, tags ARRAY<STRING>) WITH (kafka_topic='t', partitions=1);")
    sql.produce("t", {"tags": ["a", "b"]}, key=b"1", at=NOON)
    sql.produce("t", {"tags": []}, key=b"2", at=NOON)
    [result] = sql.session.results(
        "SELECT k, UCASE(EXPLODE(tags)) AS tag FROM t WHERE k != '3' EMIT CHANGES LIMIT 3;"
    )
    assert result.columns == ("K", "TAG")
    rows = iter(result.rows)
    assert [next(rows), next(rows)] == [("1", "A"), ("1", "B")]
    sql.produce("t", {"tags": ["x"]}, key=b"3", at=NOON)
    sql.produce("t", {"tags": ["c"]}, key=b"4", at=NOON)
    assert list(rows) == [("4", "C")]
    assert sql.session.engine.spark.streams.active == []


def test_windows_are_kept_in_a_table_that_can_be_asked(sql: Sql) -> None:
    sql("CREATE STREAM c (k INT KEY, page STRING, ms BIGINT) WITH (kafka_topic='c', partitions=2);")
    chance = random.Random(5)
    seen: Counter[tuple[str, int]] = Counter()
    longest: dict[tuple[str, int], int] = defaultdict(int)

    def produce(count: int) -> None:
        for _ in range(count):
            page, at, ms = chance.choice("abc"), NOON + chance.randrange(300_000), chance.randrange(1000)
            sql.produce("c", {"page": page, "ms": ms}, at=at, partition=chance.randrange(2))
            window = (page, at // 60_000 * 60_000)
            seen[window] += 1
            longest[window] = max(longest[window], ms)

    produce(60)
    sql(
        "CREATE TABLE per_minute AS SELECT page, COUNT(*) AS n, MAX(ms) AS longest FROM c "
        "WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 10 MINUTES) GROUP BY page EMIT CHANGES;"
    )
    sql.settle()
    produce(40)
    sql.settle()
    rows = sql("SELECT page, WINDOWSTART, WINDOWEND, n, longest FROM per_minute;")
    assert {(page, start): n for page, start, _, n, _ in rows} == seen
    assert {(page, start): value for page, start, _, _, value in rows} == longest
    assert all(end - start == 60_000 for _, start, end, _, _ in rows)
    # Kafka's windowed key: the key, then the start of the window.
    assert {key[-8:] for key, _ in sql.records("PER_MINUTE", 2) if key} == {
        start.to_bytes(8, "big") for _, start in seen
    }
    facts = sql("DESCRIBE per_minute;")
    assert facts[0] == ("PAGE", "STRING", "primary key (with tumbling window)")

    hops = sql(
        "SELECT page, WINDOWSTART, COUNT(*) FROM c WINDOW HOPPING (SIZE 2 MINUTES, ADVANCE BY 1 MINUTE) GROUP BY page;"
    )
    expected: Counter[tuple[str, int]] = Counter()
    for (page, start), n in seen.items():
        expected[page, start] += n
        expected[page, start - 60_000] += n
    assert {(page, start): n for page, start, n in hops} == expected


def test_sessions_are_as_long_as_their_records_and_final_windows_come_when_they_are_over(sql: Sql) -> None:
    sql("CREATE STREAM v (k STRING KEY, x INT) WITH (kafka_topic='v', partitions=1);")
    for second, key in [(0, b"a"), (3, b"a"), (1, b"b"), (20, b"a")]:
        sql.produce("v", {"x": second}, key=key, at=NOON + second * 1000)
    sql(
        "CREATE TABLE visits AS SELECT k, COUNT(*) AS n FROM v WINDOW SESSION (5 SECONDS) GROUP BY k EMIT CHANGES;"
        "CREATE TABLE tens AS SELECT k, SUM(x) AS s FROM v "
        "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY k EMIT FINAL;"
    )
    sql.settle()
    sql.produce("v", {"x": 0}, key=b"z", at=NOON + 100_000)  # time advances
    sql.settle()
    visits = sql("SELECT k, WINDOWSTART, WINDOWEND, n FROM visits;")
    assert sorted(visits) == [
        ("a", NOON, NOON + 3000, 2),
        ("a", NOON + 20_000, NOON + 20_000, 1),
        ("b", NOON + 1000, NOON + 1000, 1),
        ("z", NOON + 100_000, NOON + 100_000, 1),
    ]
    tens = sql("SELECT k, WINDOWSTART, s FROM tens;")
    assert sorted(tens) == [("a", NOON, 3), ("a", NOON + 20_000, 20), ("b", NOON, 1)]


def test_groups_that_having_no_longer_takes_leave_the_table(sql: Sql) -> None:
    sql("CREATE STREAM o (k STRING KEY, x INT) WITH (kafka_topic='o', partitions=1);")
    sql("CREATE TABLE low AS SELECT k, COUNT(*) AS n FROM o GROUP BY k HAVING COUNT(*) < 3 EMIT CHANGES;")
    for key in (b"a", b"a", b"b"):
        sql.produce("o", {"x": 1}, key=key)
    sql.settle()
    assert sorted(sql("SELECT * FROM low;")) == [("a", 2), ("b", 1)]
    sql.produce("o", {"x": 1}, key=b"a")
    sql.settle()
    assert sql("SELECT * FROM low;") == [("b", 1)]
    assert sql.records("LOW")[-1] == (b"a", None)


def test_a_stream_looks_into_a_table_as_it_is_then(sql: Sql) -> None:
    sql(
        "CREATE STREAM orders (id INT KEY, who STRING) WITH (kafka_topic='orders', partitions=1);"
        "CREATE TABLE users (name STRING PRIMARY KEY, city STRING) WITH (kafka_topic='users', partitions=2);"
        "INSERT INTO users VALUES ('ann', 'Brno');"
        "CREATE STREAM placed AS SELECT o.id, o.who AS who, u.city AS city FROM orders o "
        "LEFT JOIN users u ON o.who = u.name EMIT CHANGES;"
    )
    sql("INSERT INTO orders VALUES (1, 'ann'), (2, 'bob');")
    sql.settle()
    sql(
        "INSERT INTO users VALUES ('ann', 'Graz'), ('bob', 'Linz'); INSERT INTO orders VALUES (3, 'ann'), (4, 'bob');"
    )
    sql.settle()
    assert sql.records("PLACED") == [
        (b"ann", {"ID": 1, "CITY": "Brno"}),
        (b"bob", {"ID": 2, "CITY": None}),
        (b"ann", {"ID": 3, "CITY": "Graz"}),
        (b"bob", {"ID": 4, "CITY": "Linz"}),
    ]


def test_streams_are_joined_within_their_bounds(sql: Sql) -> None:
    sql(
        "CREATE STREAM l (k INT KEY, a INT) WITH (kafka_topic='l', partitions=1);"
        "CREATE STREAM r (k INT KEY, b INT) WITH (kafka_topic='r', partitions=1);"
    )
    chance = random.Random(7)
    sides: dict[str, list[tuple[int, int, int]]] = {"l": [], "r": []}
    for number in range(40):
        side, key, second = chance.choice("lr"), chance.randrange(3), chance.randrange(120)
        sides[side].append((key, number, second))
        field = "a" if side == "l" else "b"
        sql.produce(side, {field: number}, key=key.to_bytes(4, "big"), at=NOON + second * 1000)
    sql(
        "CREATE STREAM both AS SELECT l.k AS k, l.a AS a, r.b AS b FROM l "
        "JOIN r WITHIN (10 SECONDS, 30 SECONDS) GRACE PERIOD 1 HOUR ON l.k = r.k EMIT CHANGES;"
    )
    sql.settle()
    expected = sorted(
        (k, a, b)
        for k, a, at in sides["l"]
        for key, b, then in sides["r"]
        if k == key and -10 <= then - at <= 30
    )
    assert sorted(sql("SELECT k, a, b FROM both;")) == expected
    assert expected


def test_tables_are_joined_as_they_change(sql: Sql) -> None:
    sql(
        "CREATE TABLE p (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='p', partitions=1);"
        "CREATE TABLE m (id INT PRIMARY KEY, mail STRING) WITH (kafka_topic='m', partitions=1);"
        "INSERT INTO p VALUES (1, 'ann'), (2, 'bob'); INSERT INTO m VALUES (1, 'a@'), (3, 'c@');"
        "CREATE TABLE full AS SELECT ROWKEY AS id, p.name AS name, m.mail AS mail FROM p FULL JOIN m ON p.id = m.id;"
    )
    sql.settle()
    assert sorted(sql("SELECT * FROM full;")) == [(1, "ann", "a@"), (2, "bob", None), (3, None, "c@")]
    sql("INSERT INTO p VALUES (2, 'bea');")
    sql.broker.produce("m", None, key=(3).to_bytes(4, "big"))
    sql.settle()
    assert sorted(sql("SELECT * FROM full;")) == [(1, "ann", "a@"), (2, "bea", None)]


def test_tables_are_joined_by_what_is_not_their_key(sql: Sql) -> None:
    sql(
        "CREATE TABLE p (id INT PRIMARY KEY, name STRING, team STRING) WITH (kafka_topic='p', partitions=1);"
        "CREATE TABLE t (team STRING PRIMARY KEY, boss STRING) WITH (kafka_topic='t', partitions=1);"
        "INSERT INTO p VALUES (1, 'ann', 'x'), (2, 'bob', 'y'); INSERT INTO t VALUES ('x', 'eve');"
        "CREATE TABLE bosses AS SELECT p.id, p.name AS name, t.boss AS boss FROM p JOIN t ON p.team = t.team;"
    )
    sql.settle()
    assert sql("SELECT * FROM bosses;") == [(1, "ann", "eve")]
    sql("INSERT INTO p VALUES (2, 'bob', 'x'); INSERT INTO t VALUES ('x', 'dan');")
    sql.settle()
    assert sorted(sql("SELECT * FROM bosses;")) == [(1, "ann", "dan"), (2, "bob", "dan")]


def test_groups_of_a_table_follow_its_rows(sql: Sql) -> None:
    sql(
        "CREATE TABLE p (id INT PRIMARY KEY, team STRING) WITH (kafka_topic='p', partitions=1);"
        "INSERT INTO p VALUES (1, 'x'), (2, 'y');"
        "CREATE TABLE sizes AS SELECT team, COUNT(*) AS n FROM p GROUP BY team;"
    )
    sql.settle()
    assert sorted(sql("SELECT * FROM sizes;")) == [("x", 1), ("y", 1)]
    sql("INSERT INTO p VALUES (2, 'x');")
    sql.settle()
    # As in ksqlDB: HAVING COUNT(*) > 0 would remove it.
    assert sorted(sql("SELECT * FROM sizes;")) == [("x", 2), ("y", 0)]


def test_rows_that_where_no_longer_takes_leave_the_table(sql: Sql) -> None:
    sql(
        "CREATE TABLE s (k STRING PRIMARY KEY, x INT) WITH (kafka_topic='s', partitions=1);"
        "INSERT INTO s VALUES ('a', 5), ('b', 50), ('c', 60);"
        "CREATE TABLE high AS SELECT k, x * 2 AS y FROM s WHERE x > 10;"
    )
    sql.settle()
    assert sorted(sql("SELECT * FROM high;")) == [("b", 100), ("c", 120)]
    sql("INSERT INTO s VALUES ('a', 70), ('b', 1);")
    sql.broker.produce("s", None, key=b"c")
    sql.settle()
    assert sql("SELECT * FROM high;") == [("a", 140)]


def test_streams_that_flow_into_one(sql: Sql) -> None:
    sql(
        "CREATE STREAM east (k INT KEY, city STRING, n INT) WITH (kafka_topic='east', partitions=1);"
        "CREATE STREAM west (k INT KEY, city STRING, n INT) WITH (kafka_topic='west', partitions=1);"
        "INSERT INTO east (ROWTIME, k, city, n) VALUES (1000, 1, 'Brno', 3);"
        "INSERT INTO west (ROWTIME, k, city, n) VALUES (2000, 2, 'Brest', 4), (3000, 3, 'skip', 0);"
        "CREATE STREAM cities WITH (kafka_topic='cities', partitions=3, value_format='DELIMITED') AS "
        "SELECT city, CAST(n AS BIGINT) AS n, k FROM east PARTITION BY city;"
        "INSERT INTO cities SELECT city, n, k FROM west WHERE n > 0 PARTITION BY city;"
    )
    assert "K is BIGINT, and in CITIES INTEGER" in sql.refused(
        "INSERT INTO cities SELECT city, n, CAST(k AS BIGINT) AS k FROM west PARTITION BY city;"
    )
    sql.settle()
    records = [record for partition in range(3) for record in sql.broker.records("cities", partition)]
    assert sorted((bytes(each.key or b""), bytes(each.value or b""), each.timestamp) for each in records) == [
        (b"Brest", b"4,2", 2000),
        (b"Brno", b"3,1", 1000),
    ]
    assert [row[:3] for row in sql("SHOW QUERIES;")] == [
        ("CSAS_CITIES_2", "RUNNING", "CITIES"),
        ("INSERTQUERY_1", "RUNNING", "CITIES"),
    ]
    assert "EAST is read by CSAS_CITIES_2: TERMINATE first." in sql.refused("DROP STREAM east;")
    sql("TERMINATE INSERTQUERY_1; DROP STREAM cities DELETE TOPIC; DROP STREAM east;")
    assert sql("SHOW QUERIES;") == []


def test_a_terminated_query_has_stopped_and_is_listed_by_no_session(sql: Sql, tmp_path: Path) -> None:
    from ottla.sql import SqlError, SqlSession

    create = "CREATE STREAM doubled AS SELECT k, x * 2 AS y FROM e;"
    sql("CREATE STREAM e (k INT KEY, x INT) WITH (kafka_topic='e', partitions=1);" + create)
    query = sql.session.queries.all()[0].query
    other = SqlSession(
        sql.session.engine.spark,
        bootstrap_servers=sql.broker.bootstrap_servers,
        checkpoints=str(tmp_path / "checkpoints"),
    )
    assert [row[:2] for row in other.execute("SHOW QUERIES;")[0].rows] == [("CSAS_DOUBLED_1", "NOT HERE")]
    with pytest.raises(SqlError, match=r"CSAS_DOUBLED_1 does not run in this session: TERMINATE it where"):
        other.execute("TERMINATE CSAS_DOUBLED_1;")
    sql("TERMINATE CSAS_DOUBLED_1;")
    assert not query.isActive
    assert sql("SHOW QUERIES;") == []
    assert other.execute("SHOW QUERIES;")[0].rows == []
    assert "This session runs no query CSAS_DOUBLED_1." in sql.refused("TERMINATE CSAS_DOUBLED_1;")
    # The stream still exists, and a script that creates it resumes the query.
    sql.session.execute(create, resume=True)
    assert [row[:2] for row in sql("SHOW QUERIES;")] == [("CSAS_DOUBLED_1", "RUNNING")]
    sql("TERMINATE ALL;")
    assert sql("SHOW QUERIES;") == []


def test_queries_that_cannot_be_written_are_refused(sql: Sql) -> None:
    sql("CREATE STREAM s (k INT KEY, x INT, at TIMESTAMP) WITH (kafka_topic='s', partitions=1);")
    assert "must include the key column K in its projection" in sql.refused(
        "CREATE STREAM z AS SELECT x FROM s;"
    )
    assert "Your SELECT query produces a TABLE" in sql.refused(
        "CREATE STREAM z AS SELECT x, COUNT(*) FROM s GROUP BY x;"
    )
    assert "Your SELECT query produces a STREAM" in sql.refused("CREATE TABLE z AS SELECT k, x FROM s;")
    assert "Unsupported arithmetic types. TIMESTAMP TIMESTAMP" in sql.refused(
        "CREATE STREAM z AS SELECT k, at - at AS d FROM s;"
    )
    assert sql("SHOW TOPICS;") == [("s", 1, 1)]


def test_a_script_goes_on_where_it_was(
    spark: SparkSession, fresh_ottla_broker: Broker, tmp_path: Path
) -> None:
    from ottla.sql import SqlSession, run_script

    spark.conf.set("spark.ottla.checkpoints", str(tmp_path))
    script = """
        SET 'auto.offset.reset' = 'earliest';
        CREATE STREAM e (k STRING KEY, x INT) WITH (kafka_topic='e', partitions=1);
        CREATE STREAM doubled AS SELECT k, x * 2 AS y FROM e;
        CREATE TABLE totals AS SELECT k, SUM(y) AS total FROM doubled GROUP BY k;
    """
    try:
        for number in (1, 2, 3):
            queries = run_script(spark, script, bootstrap_servers=fresh_ottla_broker.bootstrap_servers)
            assert [query.name for query in queries] == ["CSAS_DOUBLED_1", "CTAS_TOTALS_2"]
            fresh_ottla_broker.produce("e", b'{"x": %d}' % number, key=b"k")
            for query in queries:
                query.processAllAvailable()
            for query in queries:
                query.stop()
    finally:
        spark.conf.unset("spark.ottla.checkpoints")
    assert [bytes(each.value or b"") for each in fresh_ottla_broker.records("DOUBLED")] == [
        b'{"Y":2}',
        b'{"Y":4}',
        b'{"Y":6}',
    ]
    session = SqlSession(spark, bootstrap_servers=fresh_ottla_broker.bootstrap_servers)
    assert session.execute("SELECT * FROM totals;")[0].rows == [("k", 12)]


def test_an_insert_of_a_script_goes_on_where_it_was(
    spark: SparkSession, fresh_ottla_broker: Broker, tmp_path: Path
) -> None:
    from ottla.sql import run_script

    spark.conf.set("spark.ottla.checkpoints", str(tmp_path))
    script = """
        SET 'auto.offset.reset' = 'earliest';
        CREATE STREAM e (k STRING KEY, x INT) WITH (kafka_topic='e', partitions=1);
        CREATE STREAM both AS SELECT k, x FROM e;
        INSERT INTO both SELECT k, x * 100 AS x FROM e;
    """
    try:
        for number in (1, 2, 3):
            queries = run_script(spark, script, bootstrap_servers=fresh_ottla_broker.bootstrap_servers)
            fresh_ottla_broker.produce("e", b'{"x": %d}' % number, key=b"k")
            for query in queries:
                query.processAllAvailable()
            for query in queries:
                query.stop()
    finally:
        spark.conf.unset("spark.ottla.checkpoints")
    written = [json.loads(bytes(each.value or b""))["X"] for each in fresh_ottla_broker.records("BOTH")]
    assert sorted(written) == [1, 2, 3, 100, 200, 300]


def test_the_group_of_a_query_shows_its_lag(sql: Sql) -> None:
    from confluent_kafka import Consumer, TopicPartition

    sql("CREATE STREAM s (k INT KEY, x INT) WITH (kafka_topic='s', partitions=1);")
    sql("INSERT INTO s VALUES (1, 1), (2, 2); CREATE STREAM c AS SELECT * FROM s;")
    sql.settle()
    consumer = Consumer(
        {
            "bootstrap.servers": sql.broker.bootstrap_servers,
            "group.id": "ottla-sql-CSAS_C_1",
            "enable.auto.commit": False,
        }
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            [place] = consumer.committed([TopicPartition("s", 0)], timeout=10)
            if place.offset == 2:
                break
            time.sleep(0.2)
        assert place.offset == 2
    finally:
        consumer.close()
