"""Topics as streams and tables: the rows of pull queries, and functions over them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

from tests.sql.conftest import NOON, Sql


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def test_json_in_whatever_case_its_fields_are(sql: Sql) -> None:
    sql(
        """
        CREATE STREAM s (id BIGINT KEY, userName STRING, amount DECIMAL(6, 2), at TIMESTAMP, day DATE, ok BOOLEAN,
            home STRUCT<City STRING, tags ARRAY<STRUCT<t STRING>>>, counts MAP<STRING, INT>, `exact` STRING)
        WITH (kafka_topic='s', partitions=1, timestamp='at');
        """
    )
    sql.produce(
        "s",
        {
            "userName": "ann", "amount": 12.5, "at": NOON, "day": 20454, "ok": True, "exact": "e", "EXACT": "no",
            "home": {"City": "Brno", "tags": [{"t": "a"}, {"T": "b"}]}, "counts": {"x": 1},
        },
        key=long(1),
    )  # fmt: skip
    sql.produce("s", {"USERNAME": "bob", "at": "2026-01-01T12:00:01", "HOME": {"city": "Graz"}}, key=long(-2))
    sql.produce("s", {"username": "cid", "AT": NOON + 2000, "day": "2026-01-01"}, key=None)
    sql.broker.produce("s", b"not JSON", key=long(4))
    sql.produce("s", {"userName": "dan", "at": "never"}, key=long(5))
    sql.produce("s", {"userName": "eve", "at": NOON}, key=b"no long")

    first, second, third = sql.dicts("SELECT *, ROWTIME, ROWPARTITION, ROWOFFSET FROM s;")
    assert first == {
        "ID": 1, "USERNAME": "ann", "AMOUNT": Decimal("12.50"), "AT": datetime(2026, 1, 1, 12),
        "DAY": date(2026, 1, 1), "OK": True, "HOME": {"CITY": "Brno", "TAGS": [{"T": "a"}, {"T": "b"}]},
        "COUNTS": {"x": 1}, "exact": "e", "ROWTIME": NOON, "ROWPARTITION": 0, "ROWOFFSET": 0,
    }  # fmt: skip
    assert (second["ID"], second["USERNAME"], second["HOME"]) == (-2, "bob", {"CITY": "Graz", "TAGS": None})
    assert second["ROWTIME"] == NOON + 1000
    assert (third["ID"], third["USERNAME"], third["DAY"]) == (None, "cid", date(2026, 1, 1))


def test_delimited_text_and_keys_of_several_columns(sql: Sql) -> None:
    sql(
        """
        CREATE STREAM d (a INT KEY, b STRING KEY, name STRING, price DOUBLE, day DATE)
            WITH (kafka_topic='d', partitions=1, value_format='DELIMITED', value_delimiter=';');
        INSERT INTO d VALUES (1, 'x', 'it; has', 2.5, '2026-01-01'), (2, NULL, NULL, NULL, NULL);
        """
    )
    sql.broker.produce("d", b"only one", key=b'{"a": 3}')
    assert sql("SELECT * FROM d;") == [
        (1, "x", "it; has", 2.5, date(2026, 1, 1)),
        (2, None, None, None, None),
    ]


def test_times_of_day_are_milliseconds_in_topics(sql: Sql) -> None:
    sql(
        """
        CREATE STREAM j (at TIME, all ARRAY<TIME>) WITH (kafka_topic='j', partitions=1);
        CREATE STREAM c (at TIME, n INT) WITH (kafka_topic='c', partitions=1, value_format='DELIMITED');
        INSERT INTO j VALUES ('13:25:30', NULL);
        INSERT INTO c VALUES ('00:00:00.5', 1);
        """
    )
    sql.produce("j", {"at": 1000, "all": [0, 86_399_000]})
    assert sql.records("j")[0] == (None, {"AT": 48_330_000, "ALL": None})
    assert sql("SELECT at, all FROM j;") == [
        (time(13, 25, 30), None),
        (time(0, 0, 1), [time(0), time(23, 59, 59)]),
    ]
    assert sql("SELECT at, n FROM c;") == [(time(0, 0, 0, 500_000), 1)]
    sql("CREATE STREAM later AS SELECT TIMEADD(HOURS, 12, at) AS at, i.all FROM j i EMIT CHANGES;")
    sql.settle()
    assert [value for _, value in sql.records("LATER")] == [
        {"AT": 5_130_000, "ALL": None},
        {"AT": 43_201_000, "ALL": [0, 86_399_000]},
    ]


def test_expressions_in_a_query_that_goes_on(sql: Sql) -> None:
    """With nulls, through the formats and in a micro-batch."""
    sql(
        """
        CREATE STREAM e (id INT KEY, s STRING, n INT, day DATE, at TIMESTAMP, b BYTES, m MAP<STRING, INT>)
            WITH (kafka_topic='e', partitions=1);
        CREATE STREAM made AS SELECT id, UNIX_DATE(day) AS days, FROM_DAYS(n) AS made, UNIX_DATE() > 20000 AS now,
            s + '!' AS loud, n / 2 AS half, LPAD(b, 3, TO_BYTES('00', 'hex')) AS padded, CAST(at AS STRING) AS iso,
            TIMESTAMPTOSTRING(ROWTIME, 'HH:mm', 'Asia/Kolkata') AS there, MAP(s := n) AS by_name,
            REDUCE(m, 0, (t, k, v) => t + v) AS total, s IS DISTINCT FROM NULL AS named,
            JSON_ITEMS(s) AS items, ROUND(-2.5E0) AS rounded
        FROM e WHERE n IS NOT DISTINCT FROM 7 OR s IS NULL EMIT CHANGES;
        """
    )
    sql.produce(
        "e",
        {"s": "a", "n": 7, "day": 20454, "at": NOON, "b": "/w==", "m": {"x": 1, "y": 2}},
        key=(1).to_bytes(4, "big"),
        at=NOON,
    )
    sql.produce("e", {}, key=(2).to_bytes(4, "big"), at=NOON)
    sql.produce("e", {"s": "left out"}, key=(3).to_bytes(4, "big"), at=NOON)
    sql.settle()
    first, second = (value for _, value in sql.records("MADE"))
    assert first == {
        "DAYS": 20454, "MADE": 7, "NOW": True, "LOUD": "a!", "HALF": 3, "PADDED": "AAD/", "THERE": "17:30",
        "ISO": "2026-01-01T12:00:00.000", "BY_NAME": {"a": 7}, "TOTAL": 3, "NAMED": True, "ITEMS": None,
        "ROUNDED": -2,
    }  # fmt: skip
    assert second == {
        "DAYS": None, "MADE": None, "NOW": True, "LOUD": None, "HALF": None, "PADDED": None, "THERE": "17:30",
        "ISO": None, "BY_NAME": {"null": None}, "TOTAL": 0, "NAMED": False, "ITEMS": None, "ROUNDED": -2,
    }  # fmt: skip


def test_a_table_is_the_latest_of_each_key(sql: Sql) -> None:
    sql.broker.create_topic("t", 2)  # not compacted: it accepts records without a key
    sql("CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='t');")
    for i in range(20):
        sql.produce("t", {"v": i}, key=b"k%d" % (i % 4), partition=i % 2)
    sql.produce("t", None, key=b"k3", partition=1)
    sql.produce("t", {"v": 5}, key=None)
    assert sorted(sql("SELECT * FROM t;")) == [("k0", 16), ("k1", 17), ("k2", 18)]
    assert sql("SELECT v FROM t WHERE k = 'k1';") == [(17,)]
    assert sql("SELECT COUNT(*) AS n, SUM(v) FROM t;") == [(3, 51)]


def test_functions(sql: Sql) -> None:
    sql(
        """
        CREATE STREAM f (s STRING, n INT, a ARRAY<INT>, m MAP<STRING, STRING>, j STRING)
            WITH (kafka_topic='f', partitions=1);
        INSERT INTO f (ROWTIME, s, n, a, m, j)
            VALUES (1767268800000, 'Hello, World', 7, ARRAY[3, 1, 2], MAP('k' := 'v'), '{"a": {"b": [1, 2]}}');
        """
    )
    cases = {
        "UCASE(s)": "HELLO, WORLD",
        "LEN(s)": 12,
        "SUBSTRING(s, 1, 4)": "Hell",
        "INSTR(s, 'World')": 8,
        "SPLIT(s, ', ')": ["Hello", "World"],
        "SPLIT('a.b', '.')[-1]": "b",
        "CONCAT(s, NULL, '!')": "Hello, World!",
        "EXTRACTJSONFIELD(j, '$.a.b[1]')": "2",
        "TIMESTAMPTOSTRING(ROWTIME, 'yyyy-MM-dd HH:mm')": "2026-01-01 12:00",
        "TIMESTAMPTOSTRING(ROWTIME, 'HH:mm', 'Europe/Prague')": "13:00",
        "STRINGTOTIMESTAMP('2026-01-01 12', 'yyyy-MM-dd HH')": NOON,
        "FORMAT_TIMESTAMP(FROM_UNIXTIME(ROWTIME), 'yyyy')": "2026",
        "PARSE_DATE('01/02/2026', 'dd/MM/yyyy')": date(2026, 2, 1),
        "DATEADD(DAYS, 3, PARSE_DATE('2026-01-01', 'yyyy-MM-dd'))": date(2026, 1, 4),
        "UNIX_TIMESTAMP(FROM_UNIXTIME(ROWTIME))": NOON,
        "IFNULL(NULL, n)": 7,
        "a[1]": 3,
        "a[-1]": 2,
        "a[9]": None,
        "m['k']": "v",
        "m['nothing']": None,
        "ARRAY_CONTAINS(a, 2)": True,
        "ARRAY_LENGTH(a)": 3,
        "ARRAY_SORT(a, 'DESC')": [3, 2, 1],
        "SLICE(a, 2, 3)": [1, 2],
        "TRANSFORM(a, x => x * n)": [21, 7, 14],
        "FILTER(a, x => x > 1)": [3, 2],
        "FILTER(m, (k, v) => k = 'k')": {"k": "v"},
        "REDUCE(a, 0, (total, x) => total + x)": 6,
        "STRUCT(x := n, y := s)->x": 7,
        "MAP('q' := n)": {"q": 7},
        "ARRAY[n, 1]": [7, 1],
        "CAST('12' AS INT)": 12,
        "CAST('x' AS INT)": None,
        "n / 0": None,
        "CASE WHEN n > 5 THEN 'big' ELSE 'small' END": "big",
        "REGEXP_EXTRACT('W(.*)d', s, 1)": "orl",
        "FIELD('b', 'a', 'b')": 2,
        "GENERATE_SERIES(1, 3)": [1, 2, 3],
        "ROUND(GEO_DISTANCE(50.0755, 14.4378, 49.1951, 16.6068, 'KM'))": 184.0,
        "URL_EXTRACT_HOST('https://example.org/a?b=c')": "example.org",
        "GREATEST(1, n, 3)": 7,
        "s LIKE 'Hello%' AND NOT n IN (1, 2)": True,
    }
    listed = ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(cases))
    [row] = sql(f"SELECT {listed} FROM f;")
    assert dict(zip(cases, row, strict=True)) == cases


def test_aggregates_of_what_there_is(sql: Sql) -> None:
    sql("CREATE STREAM v (k STRING KEY, g STRING, x INT) WITH (kafka_topic='v', partitions=1);")
    # Offsets and times run in opposite directions: the offset decides for a key.
    for i, (group, x) in enumerate([("a", 5), ("b", 1), ("a", 3), ("a", None), ("a", 5)]):
        sql.produce("v", {"g": group, "x": x}, key=b"one", at=NOON - i)
    rows = sql.dicts(
        "SELECT g, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, MIN(x) AS lo, MAX(x) AS hi, COLLECT_LIST(x) AS all_x, "
        "COUNT_DISTINCT(x) AS d, TOPK(x, 2) AS top, EARLIEST_BY_OFFSET(x) AS e FROM v GROUP BY g HAVING COUNT(*) > 1;"
    )
    assert rows == [
        {
            "G": "a", "N": 4, "C": 3, "S": 13, "LO": 3, "HI": 5, "ALL_X": [5, None, 3, 5], "D": 2, "TOP": [5, 5],
            "E": 5,
        }
    ]  # fmt: skip
    assert sql("SELECT k, LATEST_BY_OFFSET(g) AS g, LATEST_BY_OFFSET(x) AS x FROM v GROUP BY k;") == [
        ("one", "a", 5)
    ]


def test_what_spark_cannot_do_is_one_sentence(sql: Sql) -> None:
    sql("CREATE STREAM e (a INT, s STRUCT<x INT>) WITH (kafka_topic='e', partitions=1);")
    message = sql.refused("SELECT a,\n  NOSUCH(a) FROM e;")
    assert (
        message
        == "line 2, column 3: Can't find any functions with the name 'NOSUCH'; SHOW FUNCTIONS lists what there is."
    )
    assert "\n" not in sql.refused("SELECT s + 1 FROM e;")
    sql.broker.delete_topic("e")
    assert "The topic 'e' of E does not exist." in sql.refused("SELECT a FROM e;")


def test_utc_is_the_time_zone_whatever_the_session_has(sql: Sql) -> None:
    spark = sql.session.engine.spark
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        sql("CREATE STREAM z (a TIMESTAMP) WITH (kafka_topic='z', partitions=1);")
        sql("INSERT INTO z VALUES ('2026-01-01T12:00:00');")
        assert sql("SELECT UNIX_TIMESTAMP(a), FORMAT_TIMESTAMP(a, 'HH') FROM z;") == [(NOON, "12")]
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert datetime.fromtimestamp(NOON / 1000, UTC).hour == 12
