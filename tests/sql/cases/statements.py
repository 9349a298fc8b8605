"""Statements around queries: column names, sink timestamps, INSERT INTO, PAUSE, CREATE OR REPLACE, windows."""

from __future__ import annotations

from tests.sql.cases.case import Case, In, Out, refused

_S = "CREATE STREAM s (k STRING KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1);"
_N = "names of columns"
_W = "windowed sources"
_TIME = "timestamps"
_WINDOWED = (
    "CREATE TABLE w (k STRING PRIMARY KEY, n INT) WITH (kafka_topic='w', partitions=1, window_type='TUMBLING', "
    "window_size='10 SECONDS');"
)


def _windowed(key: str, start: int) -> bytes:
    return key.encode() + start.to_bytes(8, "big")


CASES: list[Case] = [
    # Names
    Case(
        "those without a name are numbered",
        _S + "CREATE STREAM o AS SELECT k, a + 1, b, UCASE(b), a AS c, a * 2 FROM s;",
        [In("s", "x", {"a": 1, "b": "p"}, 10)],
        [Out("O", "x", {"KSQL_COL_0": 2, "B": "p", "KSQL_COL_1": "P", "C": 1, "KSQL_COL_2": 2}, 10)],
        grouped=_N,
        telling=True,
    ),
    Case(
        "a number that a column has is left out",
        "CREATE STREAM s (k STRING KEY, KSQL_COL_0 INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, KSQL_COL_0, KSQL_COL_0 + 1 FROM s;",
        [In("s", "x", {"KSQL_COL_0": 1}, 10)],
        [Out("O", "x", {"KSQL_COL_0": 1, "KSQL_COL_1": 2}, 10)],
        grouped=_N,
    ),
    Case(
        "aggregates are numbered as well",
        _S + "CREATE TABLE o AS SELECT k, COUNT(*), SUM(a) FROM s GROUP BY k;",
        [In("s", "x", {"a": 1}, 10), In("s", "x", {"a": 2}, 20)],
        [
            Out("O", "x", {"KSQL_COL_0": 1, "KSQL_COL_1": 1}, 10),
            Out("O", "x", {"KSQL_COL_0": 2, "KSQL_COL_1": 3}, 20),
        ],
        grouped=_N,
    ),
    Case(
        "a field of a struct has its own name, and a number when it comes again",
        "CREATE STREAM s (k STRING KEY, p STRUCT<x INT, y STRUCT<x INT>>) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, p->x, p->y->x FROM s;",
        [In("s", "x", {"p": {"x": 1, "y": {"x": 2}}}, 10)],
        [Out("O", "x", {"X": 1, "X_1": 2}, 10)],
        grouped=_N,
    ),
    Case(
        "all fields of a struct",
        "CREATE STREAM s (k STRING KEY, p STRUCT<x INT, y STRING>) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, p->* FROM s;",
        [In("s", "x", {"p": {"x": 1, "y": "q"}}, 10), In("s", "y", {}, 20)],
        [Out("O", "x", {"X": 1, "Y": "q"}, 10), Out("O", "y", {"X": None, "Y": None}, 20)],
        grouped=_N,
    ),
    Case(
        "names are upper case unless quoted",
        "CREATE STREAM s (k STRING KEY, abC INT, `deF` INT, \"gHi\" INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT K, ABC, `deF`, `gHi` AS `j k` FROM S;",
        [In("s", "x", {"abC": 1, "deF": 2, "gHi": 3}, 10)],
        [Out("O", "x", {"ABC": 1, "deF": 2, "j k": 3}, 10)],
        grouped=_N,
    ),
    Case(
        "a backtick in a name",
        "CREATE STREAM s (k STRING KEY, `a``b` INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o AS SELECT k, `a``b` + 1 AS `c``d` FROM s;",
        [In("s", "x", {"a`b": 1}, 10)],
        [Out("O", "x", {"c`d": 2}, 10)],
        grouped=_N,
    ),
    Case(
        "a name of a stream that is quoted is the name of its topic",
        _S + "CREATE STREAM `my-Stream` AS SELECT * FROM s;",
        [In("s", "x", {"a": 1, "b": "p"}, 10)],
        [Out("my-Stream", "x", {"A": 1, "B": "p"}, 10)],
        grouped=_N,
    ),
    Case(
        "* and more",
        _S + "CREATE STREAM o AS SELECT *, a + 1 AS c FROM s;",
        [In("s", "x", {"a": 1, "b": "p"}, 10)],
        [Out("O", "x", {"A": 1, "B": "p", "C": 2}, 10)],
        grouped=_N,
    ),
    Case(
        "s.* and an alias of the source",
        _S + "CREATE STREAM o AS SELECT x.*, x.a AS again FROM s AS x;",
        [In("s", "x", {"a": 1, "b": "p"}, 10)],
        [Out("O", "x", {"A": 1, "B": "p", "AGAIN": 1}, 10)],
        grouped=_N,
    ),
    # Timestamps
    Case(
        "a column of the source is its time",
        "CREATE STREAM s (k STRING KEY, t BIGINT) WITH (kafka_topic='s', partitions=1, timestamp='t');"
        "CREATE STREAM o AS SELECT k, t, ROWTIME AS r FROM s;",
        [In("s", "x", {"t": 1234}, 10)],
        [Out("O", "x", {"T": 1234, "R": 1234}, 1234)],
        grouped=_TIME,
    ),
    Case(
        "a text with its format",
        "CREATE STREAM s (k STRING KEY, t STRING) WITH (kafka_topic='s', partitions=1, timestamp='t', "
        "timestamp_format='yyyy-MM-dd''T''HH:mm:ss');"
        "CREATE STREAM o AS SELECT k, ROWTIME AS r FROM s;",
        [In("s", "x", {"t": "2021-06-30T12:18:39"}, 10)],
        [Out("O", "x", {"R": 1625055519000}, 1625055519000)],
        grouped=_TIME,
    ),
    Case(
        "a TIMESTAMP",
        "CREATE STREAM s (k STRING KEY, t TIMESTAMP) WITH (kafka_topic='s', partitions=1, timestamp='t');"
        "CREATE STREAM o AS SELECT k, ROWTIME AS r FROM s;",
        [In("s", "x", {"t": 1625055519446}, 10)],
        [Out("O", "x", {"R": 1625055519446}, 1625055519446)],
        grouped=_TIME,
    ),
    Case(
        "a record without a time is left out",
        "CREATE STREAM s (k STRING KEY, t BIGINT) WITH (kafka_topic='s', partitions=1, timestamp='t');"
        "CREATE STREAM o AS SELECT k, t FROM s;",
        [In("s", "x", {}, 10), In("s", "y", {"t": -5}, 20), In("s", "z", {"t": 30}, 40)],
        [Out("O", "z", {"T": 30}, 30)],
        grouped=_TIME,
    ),
    Case(
        "a column of the sink is its time",
        "CREATE STREAM s (k STRING KEY, t BIGINT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o WITH (timestamp='u') AS SELECT k, t + 1000 AS u FROM s;",
        [In("s", "x", {"t": 1234}, 10)],
        [Out("O", "x", {"U": 2234}, 2234)],
        grouped=_TIME,
        telling=True,
    ),
    Case(
        "the key of the sink is its time",
        "CREATE STREAM s (k STRING KEY, t BIGINT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o WITH (timestamp='t') AS SELECT t, k FROM s PARTITION BY t;",
        [In("s", "x", {"t": 1234}, 10)],
        [Out("O", 1234, {"K": "x"}, 1234)],
        grouped=_TIME,
    ),
    Case(
        "a text of the sink",
        "CREATE STREAM s (k STRING KEY, t STRING) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o WITH (timestamp='t', timestamp_format='yyyy-MM-dd HH:mm') AS SELECT * FROM s;",
        [In("s", "x", {"t": "2021-06-30 12:18"}, 10)],
        [Out("O", "x", {"T": "2021-06-30 12:18"}, 1625055480000)],
        grouped=_TIME,
    ),
    Case(
        "what has no time is not written",
        "CREATE STREAM s (k STRING KEY, t BIGINT) WITH (kafka_topic='s', partitions=1);"
        "CREATE STREAM o WITH (timestamp='t') AS SELECT * FROM s;",
        [In("s", "x", {}, 10), In("s", "y", {"t": 50}, 20)],
        [Out("O", "y", {"T": 50}, 50)],
        grouped=_TIME,
    ),
    Case(
        "a table by its time, and its deletions",
        "CREATE TABLE t (k STRING PRIMARY KEY, u BIGINT) WITH (kafka_topic='t', partitions=1, timestamp='u');"
        "CREATE TABLE o AS SELECT * FROM t;",
        [In("t", "x", {"u": 1234}, 10), In("t", "x", None, 20)],
        [Out("O", "x", {"U": 1234}, 1234), Out("O", "x", None, 20)],
        grouped=_TIME,
    ),
    refused(
        _TIME,
        "a column of the sink that there is not",
        _S + "CREATE STREAM o WITH (timestamp='u') AS SELECT * FROM s;",
        "The TIMESTAMP column set in the WITH clause does not exist in the schema: 'U'",
    ),
    # INSERT INTO
    Case(
        "two queries write one stream",
        _S + "CREATE STREAM o (k STRING KEY, a INT) WITH (kafka_topic='o', partitions=1);"
        "INSERT INTO o SELECT k, a FROM s WHERE a > 1; INSERT INTO o SELECT k, a * 10 AS a FROM s WHERE a = 1;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2}, 20)],
        [Out("o", "x", {"A": 10}, 10), Out("o", "y", {"A": 2}, 20)],
        grouped="INSERT INTO",
    ),
    Case(
        "columns go by name",
        _S + "CREATE STREAM o (k STRING KEY, a INT, b STRING) WITH (kafka_topic='o', partitions=1);"
        "INSERT INTO o SELECT b, a, k FROM s;",
        [In("s", "x", {"a": 1, "b": "p"}, 10)],
        [Out("o", "x", {"A": 1, "B": "p"}, 10)],
        grouped="INSERT INTO",
    ),
    Case(
        "a stream that a query writes",
        _S
        + "CREATE STREAM o AS SELECT k, a FROM s WHERE a = 1; INSERT INTO o SELECT k, a FROM s WHERE a = 2;",
        [In("s", "x", {"a": 1}, 10), In("s", "y", {"a": 2}, 20)],
        [Out("O", "x", {"A": 1}, 10), Out("O", "y", {"A": 2}, 20)],
        grouped="INSERT INTO",
    ),
    Case(
        "values, with and without columns",
        _S + "CREATE STREAM o AS SELECT k, a, b, ROWTIME AS t FROM s;",
        [
            "INSERT INTO s (ROWTIME, k, a, b) VALUES (5, 'x', 1, 'p');",
            "INSERT INTO s (b, ROWTIME, a) VALUES ('q', 6, -2);",
        ],
        [Out("O", "x", {"A": 1, "B": "p", "T": 5}, 5), Out("O", None, {"A": -2, "B": "q", "T": 6}, 6)],
        grouped="INSERT INTO",
    ),
    Case(
        "values of every type",
        "CREATE STREAM s (k STRUCT<x INT> KEY, a ARRAY<INT>, m MAP<STRING, INT>, st STRUCT<y STRING>, d DECIMAL(4, 2), "
        "t TIMESTAMP, dt DATE, tm TIME, f BOOLEAN, n DOUBLE, by BYTES) "
        "WITH (kafka_topic='s', partitions=1, key_format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s;",
        [
            "INSERT INTO s (ROWTIME, k, a, m, st, d, t, dt, tm, f, n, by) VALUES (5, STRUCT(x := 1), ARRAY[1, NULL], "
            "MAP('p' := 2), STRUCT(y := 'q'), 1.25, '2021-06-30T12:18:39.446', '2021-10-11', '13:25:30', TRUE, 2.5, "
            "'AQID');"
        ],
        [
            Out(
                "O",
                {"X": 1},
                {
                    "A": [1, None],
                    "M": {"p": 2},
                    "ST": {"Y": "q"},
                    "D": 1.25,
                    "T": 1625055519446,
                    "DT": 18911,
                    "TM": 48330000,
                    "F": True,
                    "N": 2.5,
                    "BY": "AQID",
                },
                5,
            )
        ],
        grouped="INSERT INTO",
    ),
    Case(
        "values into one column that is the whole value",
        "CREATE STREAM s (k DOUBLE KEY, a INT) WITH (kafka_topic='s', partitions=1, wrap_single_value=false);"
        "CREATE STREAM o AS SELECT * FROM s;",
        ["INSERT INTO s (ROWTIME, k, a) VALUES (5, 2.5, 7);"],
        [Out("s", 2.5, 7, 5), Out("O", 2.5, {"A": 7}, 5)],
        grouped="INSERT INTO",
    ),
    # PAUSE, RESUME, CREATE OR REPLACE
    Case(
        "a query that is paused goes on where it was",
        _S + "CREATE STREAM o AS SELECT k, a FROM s;",
        [
            In("s", "x", {"a": 1}, 10),
            "PAUSE ALL;",
            In("s", "y", {"a": 2}, 20),
            "RESUME ALL;",
            In("s", "z", {"a": 3}, 30),
        ],
        [Out("O", "x", {"A": 1}, 10), Out("O", "y", {"A": 2}, 20), Out("O", "z", {"A": 3}, 30)],
        grouped="PAUSE and RESUME",
    ),
    Case(
        "a count that is paused goes on where it was",
        _S + "CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
        [In("s", "x", {"a": 1}, 10), "PAUSE CTAS_O_1;", In("s", "x", {"a": 2}, 20), "RESUME CTAS_O_1;"],
        [Out("O", "x", {"N": 1}, 10), Out("O", "x", {"N": 2}, 20)],
        grouped="PAUSE and RESUME",
    ),
    Case(
        "a column more: the query goes on where it was",
        _S + "CREATE STREAM o AS SELECT k, a FROM s;",
        [
            In("s", "x", {"a": 1, "b": "p"}, 10),
            "CREATE OR REPLACE STREAM o AS SELECT k, a, b FROM s WHERE a > 1;",
            In("s", "y", {"a": 1, "b": "q"}, 20),
            In("s", "z", {"a": 2, "b": "r"}, 30),
        ],
        [Out("O", "x", {"A": 1}, 10), Out("O", "z", {"A": 2, "B": "r"}, 30)],
        grouped="CREATE OR REPLACE",
    ),
    Case(
        "a source gets a column",
        _S + "CREATE OR REPLACE STREAM s (k STRING KEY, a INT, b STRING, c INT) WITH (kafka_topic='s');"
        "CREATE STREAM o AS SELECT k, c FROM s;",
        [In("s", "x", {"a": 1, "c": 3}, 10)],
        [Out("O", "x", {"C": 3}, 10)],
        grouped="CREATE OR REPLACE",
    ),
    Case(
        "what is not there is made",
        _S + "CREATE OR REPLACE STREAM o AS SELECT k, a FROM s;",
        [In("s", "x", {"a": 1}, 10)],
        [Out("O", "x", {"A": 1}, 10)],
        grouped="CREATE OR REPLACE",
    ),
    Case(
        "a stream is made again after DROP",
        _S
        + "CREATE STREAM o AS SELECT k, a FROM s; DROP STREAM o DELETE TOPIC; CREATE STREAM o AS SELECT k, b FROM s;",
        [In("s", "x", {"a": 1, "b": "p"}, 10)],
        [Out("O", "x", {"B": "p"}, 10)],
        grouped="DROP",
    ),
    # Windowed sources
    Case(
        "the bounds of windows in SELECT and WHERE",
        _WINDOWED + "CREATE TABLE o AS SELECT k, n, WINDOWSTART AS ws, WINDOWEND AS we FROM w "
        "WHERE WINDOWSTART >= 10000 AND WINDOWEND <= 20000;",
        [
            In("w", _windowed("x", 0), {"n": 1}, 1),
            In("w", _windowed("x", 10_000), {"n": 2}, 10_001),
            In("w", _windowed("x", 20_000), {"n": 3}, 20_001),
        ],
        [Out("O", "x", {"N": 2, "WS": 10_000, "WE": 20_000}, 10_001, (10_000, 20_000))],
        grouped=_W,
        different="what WHERE never took is written as a tombstone, where ksqlDB writes nothing",
        ways=("all at once",),
    ),
    Case(
        "a stream over windowed keys keeps their windows",
        "CREATE STREAM w (k STRING KEY, n INT) WITH (kafka_topic='w', partitions=1, window_type='HOPPING', "
        "window_size='10 SECONDS');"
        "CREATE STREAM o AS SELECT k, n, WINDOWSTART AS ws FROM w WHERE n > 1;",
        [In("w", _windowed("x", 0), {"n": 1}, 1), In("w", _windowed("y", 5000), {"n": 2}, 5001)],
        [Out("O", "y", {"N": 2, "WS": 5000}, 5001, (5000, 15_000))],
        grouped=_W,
    ),
    Case(
        "a session has its end and its start in the key",
        "CREATE STREAM w (k STRING KEY, n INT) WITH (kafka_topic='w', partitions=1, window_type='SESSION');"
        "CREATE STREAM o AS SELECT k, n, WINDOWSTART AS ws, WINDOWEND AS we FROM w;",
        [In("w", b"x" + (9).to_bytes(8, "big") + (4).to_bytes(8, "big"), {"n": 1}, 9)],
        [Out("O", "x", {"N": 1, "WS": 4, "WE": 9}, 9, (4, 9))],
        grouped=_W,
    ),
    refused(
        _W,
        "PARTITION BY",
        "CREATE STREAM w (k STRING KEY, n INT) WITH (kafka_topic='w', partitions=1, window_type='TUMBLING', "
        "window_size='10 SECONDS');"
        "CREATE STREAM o AS SELECT n, k, WINDOWSTART AS ws FROM w PARTITION BY n;",
        "PARTITION BY of W is not supported, because its keys have windows.",
    ),
    Case(
        "a table is counted per window, and a second query reads it",
        _S
        + "CREATE TABLE c AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS, RETENTION 2 DAYS) "
        "GROUP BY k;"
        "CREATE TABLE o AS SELECT k, n * 10 AS tens FROM c;",
        [In("s", "x", {"a": 1}, 1000), In("s", "x", {"a": 2}, 11_000), In("s", "x", {"a": 3}, 2000)],
        [
            Out("O", "x", {"TENS": 10}, 1000, (0, 10_000)),
            Out("O", "x", {"TENS": 10}, 11_000, (10_000, 20_000)),
            Out("O", "x", {"TENS": 20}, 2000, (0, 10_000)),
        ],
        grouped=_W,
    ),
]
