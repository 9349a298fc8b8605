"""Joins and groups over AVRO, PROTOBUF and JSON_SR."""

from __future__ import annotations

from tests.sql.cases.case import Case, In, Out

_GROUP = "queries over formats with schemas"

CASES: list[Case] = [
    Case(
        "a stream with a table",
        "CREATE STREAM s (k INT KEY, u STRING, a INT) WITH (kafka_topic='s', partitions=1, value_format='AVRO');"
        "CREATE TABLE t (u STRING PRIMARY KEY, city STRING) WITH (kafka_topic='t', partitions=1, format='PROTOBUF');"
        "CREATE STREAM o AS SELECT s.u AS u, s.a AS a, t.city AS city FROM s LEFT JOIN t ON s.u = t.u;",
        [
            In("t", {"U": "x"}, {"CITY": "Brno"}, 5),
            In("s", 1, {"U": "x", "A": 1}, 10),
            In("s", 2, {"U": "y", "A": 2}, 20),
        ],
        [Out("O", "x", {"A": 1, "CITY": "Brno"}, 10), Out("O", "y", {"A": 2, "CITY": None}, 20)],
        grouped=_GROUP,
        registry=True,
    ),
    Case(
        "a stream with a stream",
        "CREATE STREAM l (k INT KEY, a INT) WITH (kafka_topic='l', partitions=1, format='AVRO');"
        "CREATE STREAM r (k INT KEY, b INT) WITH (kafka_topic='r', partitions=1, format='JSON_SR');"
        "CREATE STREAM o AS SELECT l.k AS k, a, b FROM l JOIN r WITHIN 1 MINUTE ON l.k = r.k;",
        [In("l", 1, {"A": 1}, 10), In("r", 1, {"B": 2}, 20), In("r", 2, {"B": 3}, 30)],
        [Out("O", 1, {"A": 1, "B": 2}, 20)],
        grouped=_GROUP,
        registry=True,
    ),
    Case(
        "a group of a table, with HAVING",
        "CREATE TABLE t (k INT PRIMARY KEY, g STRING, a INT) "
        "WITH (kafka_topic='t', partitions=1, format='PROTOBUF');"
        "CREATE TABLE o WITH (format='AVRO') AS SELECT g, SUM(a) AS n FROM t GROUP BY g HAVING SUM(a) > 1;",
        [
            In("t", {"K": 1}, {"G": "x", "A": 2}, 10),
            In("t", {"K": 2}, {"G": "x", "A": 3}, 20),
            In("t", {"K": 1}, None, 30),
            In("t", {"K": 2}, {"G": "x", "A": 1}, 40),
        ],
        [
            Out("O", "x", {"N": 2}, 10),
            Out("O", "x", {"N": 5}, 20),
            Out("O", "x", {"N": 3}, 30),
            Out("O", "x", None, 40),
        ],
        grouped=_GROUP,
        registry=True,
        ways=("record by record",),
    ),
    Case(
        "sessions",
        "CREATE STREAM s (k STRING KEY, a INT) WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF');"
        "CREATE TABLE o WITH (format='AVRO') AS SELECT k, SUM(a) AS n FROM s WINDOW SESSION (10 SECONDS) GROUP BY k;",
        [In("s", "x", {"A": 1}, 10), In("s", "x", {"A": 2}, 5000)],
        [
            Out("O", "x", {"N": 1}, 10, window=(10, 10)),
            Out("O", "x", None, 10, window=(10, 10)),
            Out("O", "x", {"N": 3}, 5000, window=(10, 5000)),
        ],
        grouped=_GROUP,
        registry=True,
        ways=("record by record",),
    ),
    Case(
        "the time of a record in a column",
        "CREATE STREAM s (k INT KEY, t TIMESTAMP) "
        "WITH (kafka_topic='s', partitions=1, value_format='AVRO', timestamp='t');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM s;",
        ["INSERT INTO s (k, t) VALUES (1, '1970-01-01T00:00:07');"],
        [Out("O", 1, {"T": 7000}, 7000)],
        grouped=_GROUP,
        registry=True,
    ),
]
