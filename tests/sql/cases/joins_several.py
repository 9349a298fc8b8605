"""Several joins of streams and tables in one SELECT, from left to right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.sql.cases.case import Case, In, Out, Way, refused

GROUPED = "several JOINs"
_STREAMS = "".join(
    f"CREATE STREAM s{n} (id INT KEY, v INT, w INT) WITH (kafka_topic='s{n}', partitions=1);"
    for n in (1, 2, 3)
)
_TABLES = "".join(
    f"CREATE TABLE t{n} (id INT PRIMARY KEY, v INT) WITH (kafka_topic='t{n}', partitions=1);"
    for n in (1, 2, 3, 4)
)
_ONE: tuple[Way, ...] = ("record by record",)


def rec(topic: str, v: int | None, ts: int, key: int | None = 1, w: int | None = None) -> In:
    value = None if v is None else {"v": v} if topic.startswith("t") else {"v": v, "w": w}
    return In(topic, key, value, ts)


def o(ts: int, *values: int | None, key: int = 1) -> Out:
    return Out("O", key, {f"V{number}": value for number, value in enumerate(values, 1)}, ts)


def _case(name: str, query: str, inputs: list[In], outputs: list[Out], **more: Any) -> Case:
    return Case(name, f"{_STREAMS}{_TABLES}{query}", inputs, outputs, grouped=GROUPED, **more)


def _select(sources: list[str], joins: str, what: str = "STREAM", key: str | None = None) -> str:
    values = ", ".join(f"{source}.v AS v{number}" for number, source in enumerate(sources, 1))
    return f"CREATE {what} o AS SELECT {key or sources[0] + '.id'} AS id, {values} FROM {sources[0]} {joins};"


# fmt: off
def _stream_table_table() -> Iterator[Case]:
    inputs = [rec("s1", 1, 9), rec("t1", 2, 10), rec("s1", 1, 11), rec("t2", 3, 12), rec("s1", 1, 13)]
    outputs = {
        ("", ""): [o(13, 1, 2, 3)],
        ("LEFT", "LEFT"): [o(9, 1, None, None), o(11, 1, 2, None), o(13, 1, 2, 3)],
        ("LEFT", ""): [o(13, 1, 2, 3)],
        ("", "LEFT"): [o(11, 1, 2, None), o(13, 1, 2, 3)],
    }
    for (first, second), made in outputs.items():
        query = _select(["s1", "t1", "t2"], f"{first} JOIN t1 ON s1.id = t1.id {second} JOIN t2 ON s1.id = t2.id")
        yield _case(f"a stream and two tables: {first or 'INNER'}, {second or 'INNER'}", query, inputs, made,
                    telling=first == second == "LEFT")


def _tables() -> Iterator[Case]:
    inputs = [rec("t1", 1, 9), rec("t2", 2, 10), rec("t3", 3, 12), rec("t2", None, 13)]
    outputs = {
        ("", ""): [o(12, 1, 2, 3), Out("O", 1, None, 13)],
        ("LEFT", "LEFT"): [o(9, 1, None, None), o(10, 1, 2, None), o(12, 1, 2, 3), o(13, 1, None, 3)],
        ("LEFT", ""): [o(12, 1, 2, 3), o(13, 1, None, 3)],
        ("", "LEFT"): [o(10, 1, 2, None), o(12, 1, 2, 3), Out("O", 1, None, 13)],
    }
    for (first, second), made in outputs.items():
        joins = f"{first} JOIN t2 ON t1.id = t2.id {second} JOIN t3 ON t1.id = t3.id"
        query = _select(["t1", "t2", "t3"], joins, "TABLE")
        yield _case(f"three tables: {first or 'INNER'}, {second or 'INNER'}", query, inputs, made)
    joins = "FULL JOIN t2 ON t1.id = t2.id FULL JOIN t3 ON ROWKEY = t3.id"
    full = _select(["t1", "t2", "t3"], joins, "TABLE", "ROWKEY")
    yield refused(GROUPED, "ROWKEY in ON", f"{_STREAMS}{_TABLES}{full}", "There is no column ROWKEY")


_WITHIN = "WITHIN 10 SECONDS GRACE PERIOD 1 SECOND"

_BY_WHAT_WAS_FOUND = (
    "CREATE STREAM o AS SELECT t1.v AS id, s1.v AS v1, AS_VALUE(t1.v) AS v2, t2.v AS v3 FROM s1 "
    "LEFT JOIN t1 ON s1.id = t1.id LEFT JOIN t2 ON t1.v = t2.id;"
)

_OTHERS = [
    _case("the key by the name of the second", _select(["s1", "t1", "t2"],
          "JOIN t1 ON s1.id = t1.id JOIN t2 ON s1.id = t2.id", key="t1.id"),
          [rec("t1", 2, 1), rec("t2", 3, 2), rec("s1", 1, 3)], [o(3, 1, 2, 3)]),
    _case("the key by the name of the third", _select(["s1", "t1", "t2"],
          "JOIN t1 ON s1.id = t1.id JOIN t2 ON s1.id = t2.id", key="t2.id"),
          [rec("t1", 2, 1), rec("t2", 3, 2), rec("s1", 1, 3)], [o(3, 1, 2, 3)]),
    _case("the second by the column of the first table", _select(["s1", "t1", "t2"],
          "JOIN t1 ON s1.id = t1.id JOIN t2 ON t1.id = t2.id"),
          [rec("t1", 2, 1), rec("t2", 3, 2), rec("s1", 1, 3)], [o(3, 1, 2, 3)]),
    _case("LEFT, and the second by the column of the first table: the key is there", _select(["s1", "t1", "t2"],
          "LEFT JOIN t1 ON s1.id = t1.id LEFT JOIN t2 ON t1.id = t2.id"),
          [rec("t2", 3, 2), rec("s1", 1, 3)], [o(3, 1, None, 3)]),
    _case("the second by another column", _select(["s1", "t1", "t2"],
          "JOIN t1 ON s1.id = t1.id JOIN t2 ON s1.w = t2.id", key="s1.w"),
          [rec("t1", 2, 1), rec("t2", 3, 2, 7), rec("s1", 1, 3, 1, 7)], [o(3, 1, 2, 3, key=7)]),
    _case("the second by what the first found", _BY_WHAT_WAS_FOUND.replace("LEFT ", ""),
          [rec("t1", 7, 1), rec("t2", 3, 2, 7), rec("s1", 1, 3, 1, 9)], [o(3, 1, 7, 3, key=7)]),
    _case("LEFT, the second by what the first did not find", _BY_WHAT_WAS_FOUND,
          [rec("t2", 3, 2, 7), rec("s1", 1, 3)], []),
    _case("three tables looked into", _select(["s1", "t1", "t2", "t3"],
          "JOIN t1 ON s1.id = t1.id LEFT JOIN t2 ON s1.w = t2.id LEFT JOIN t3 ON s1.id = t3.id", key="s1.id"),
          [rec("t1", 2, 1), rec("t2", 3, 2, 7), rec("t3", 4, 2), rec("s1", 1, 3, 1, 7)], [o(3, 1, 2, 3, 4)]),
    _case("three streams", _select(["s1", "s2", "s3"],
          f"JOIN s2 {_WITHIN} ON s1.id = s2.id JOIN s3 {_WITHIN} ON s1.id = s3.id"),
          [rec("s1", 1, 0), rec("s2", 2, 1000), rec("s3", 3, 2000)], [o(2000, 1, 2, 3)]),
    _case("three streams, the last first", _select(["s1", "s2", "s3"],
          f"JOIN s2 {_WITHIN} ON s1.id = s2.id JOIN s3 {_WITHIN} ON s1.id = s3.id"),
          [rec("s3", 3, 0), rec("s2", 2, 1000), rec("s1", 1, 2000)], [o(2000, 1, 2, 3)]),
    _case("three streams, by expressions", _select(["s1", "s2", "s3"],
          f"JOIN s2 {_WITHIN} ON s1.id = ABS(s2.id) JOIN s3 {_WITHIN} ON ABS(s2.id) = ABS(s3.id)"),
          [rec("s3", 3, 0, -1), rec("s2", 2, 1000, -1), rec("s1", 1, 2000)], [o(2000, 1, 2, 3)]),
    _case("three streams, the last by another column", _select(["s1", "s2", "s3"],
          f"JOIN s2 {_WITHIN} ON s1.id = s2.id JOIN s3 {_WITHIN} ON s2.w = s3.id", key="s3.id"),
          [rec("s1", 1, 0), rec("s2", 2, 1000, 1, 5), rec("s3", 3, 2000, 5)], [o(2000, 1, 2, 3, key=5)]),
    _case("LEFT JOIN of three streams, without GRACE", _select(["s1", "s2", "s3"],
          "LEFT JOIN s2 WITHIN 10 SECONDS ON s1.id = s2.id LEFT JOIN s3 WITHIN 10 SECONDS ON s1.id = s3.id"),
          [rec("s1", 1, 0), rec("s2", 2, 1000), rec("s3", 3, 2000)],
          [o(0, 1, None, None), o(1000, 1, 2, None), o(2000, 1, None, 3), o(2000, 1, 2, 3)]),
    _case("two streams and a table", _select(["s1", "s2", "t1"],
          f"JOIN s2 {_WITHIN} ON s1.id = s2.id JOIN t1 ON s1.id = t1.id"),
          [rec("t1", 3, 0), rec("s1", 1, 1000), rec("s2", 2, 2000)], [o(2000, 1, 2, 3)]),
    _case("two streams and a table by another column",
          "CREATE STREAM o AS SELECT s2.v AS id, s1.v AS v1, t1.v AS v2 FROM s1 "
          f"JOIN s2 {_WITHIN} ON s1.id = s2.id LEFT JOIN t1 ON s2.v = t1.id;",
          [rec("t1", 3, 0, 2), rec("s1", 1, 1000), rec("s2", 2, 2000), rec("s2", 4, 3000)],
          [o(2000, 1, 3, key=2), o(3000, 1, None, key=4)]),
    _case("a stream, a table and a stream", _select(["s1", "t1", "s2"],
          f"JOIN t1 ON s1.id = t1.id JOIN s2 {_WITHIN} ON s1.id = s2.id"),
          [rec("t1", 2, 0), rec("s1", 1, 1000), rec("s2", 3, 2000)], [o(2000, 1, 2, 3)]),
    _case("what is over in the first join goes on to the second", _select(["s1", "s2", "t1"],
          f"LEFT JOIN s2 {_WITHIN} ON s1.id = s2.id LEFT JOIN t1 ON s1.id = t1.id"),
          [rec("t1", 3, 0), rec("s1", 1, 1000), rec("s2", 2, 30000, 9)], [o(1000, 1, None, 3)]),
    _case("four tables", _select(["t1", "t2", "t3", "t4"],
          "JOIN t2 ON t1.id = t2.id JOIN t3 ON t1.id = t3.id JOIN t4 ON t1.id = t4.id", "TABLE"),
          [rec("t4", 4, 1), rec("t3", 3, 2), rec("t2", 2, 3), rec("t1", 1, 4), rec("t3", 5, 5), rec("t4", None, 6)],
          [o(4, 1, 2, 3, 4), o(5, 1, 2, 5, 4), Out("O", 1, None, 6)]),
    _case("the last of three tables is deleted and comes back", _select(["t1", "t2", "t3"],
          "JOIN t2 ON t1.id = t2.id JOIN t3 ON t1.id = t3.id", "TABLE"),
          [rec("t1", 1, 1), rec("t2", 2, 2), rec("t3", 3, 3), rec("t3", None, 4), rec("t3", 6, 5)],
          [o(3, 1, 2, 3), Out("O", 1, None, 4), o(5, 1, 2, 6)]),
    _case("the first of three tables is deleted", _select(["t1", "t2", "t3"],
          "LEFT JOIN t2 ON t1.id = t2.id LEFT JOIN t3 ON t1.id = t3.id", "TABLE"),
          [rec("t1", 1, 1), rec("t1", None, 2)], [o(1, 1, None, None), Out("O", 1, None, 2)]),
    _case("an INNER JOIN, then a FULL JOIN", _select(["t1", "t2", "t3"],
          "INNER JOIN t2 ON t1.id = t2.id FULL JOIN t3 ON t1.id = t3.id", "TABLE", "ROWKEY"),
          [rec("t3", 3, 1), rec("t1", 1, 2), rec("t2", 2, 3), rec("t1", None, 4)],
          [o(1, None, None, 3), o(3, 1, 2, 3), o(4, None, None, 3)]),
    _case("SELECT *", "CREATE STREAM o AS SELECT * FROM s1 JOIN t1 ON s1.id = t1.id JOIN t2 ON s1.id = t2.id;",
          [rec("t1", 2, 1), rec("t2", 3, 2), rec("s1", 1, 3)],
          [Out("O", 1, {"S1_V": 1, "S1_W": None, "T1_ID": 1, "T1_V": 2, "T2_ID": 1, "T2_V": 3}, 3)]),
    _case("INSERT INTO", "CREATE STREAM o (id INT KEY, v1 INT, v2 INT, v3 INT) WITH (kafka_topic='O', partitions=1);"
          "INSERT INTO o SELECT s1.id AS id, s1.v AS v1, t1.v AS v2, t2.v AS v3 FROM s1 JOIN t1 ON s1.id = t1.id "
          "LEFT JOIN t2 ON s1.w = t2.id PARTITION BY s1.id;",
          [rec("t1", 2, 1), rec("t2", 3, 2, 7), rec("s1", 1, 3, 1, 7)], [o(3, 1, 2, 3)]),
]

_REFUSED = [
    refused(GROUPED, "without the key", f"{_STREAMS}{_TABLES}CREATE STREAM o AS SELECT s1.v AS v FROM s1 "
            "JOIN t1 ON s1.id = t1.id JOIN t2 ON s1.id = t2.id;", "S1.ID, T1.ID or T2.ID"),
    refused(GROUPED, "an expression in the first, without the key",
            f"{_STREAMS}{_TABLES}CREATE STREAM o AS SELECT s1.v AS v FROM s1 "
            "JOIN t1 ON s1.id + 1 = t1.id JOIN t2 ON s1.id = t2.id;", "S1.ID or T2.ID"),
    refused(GROUPED, "an expression in the second, without the key",
            f"{_STREAMS}{_TABLES}CREATE STREAM o AS SELECT s1.id, s1.v AS v FROM s1 "
            "JOIN t1 ON s1.id = t1.id JOIN t2 ON s1.id + 1 = t2.id;", "the join expression T2.ID"),
    refused(GROUPED, "the key twice", f"{_STREAMS}{_TABLES}CREATE STREAM o AS SELECT s1.id, s1.id AS again FROM s1 "
            "JOIN t1 ON s1.id = t1.id JOIN t2 ON s1.id = t2.id;",
            "a key column (`S1_ID`) more than once, aliased as: AGAIN and S1_ID."),
    refused(GROUPED, "WITHIN is missing in the second", f"{_STREAMS}CREATE STREAM o AS SELECT * FROM s1 "
            f"JOIN s2 {_WITHIN} ON s1.id = s2.id JOIN s3 ON s1.id = s3.id;", "must have a WITHIN clause"),
    refused(GROUPED, "the same source twice", f"{_STREAMS}{_TABLES}CREATE STREAM o AS SELECT * FROM s1 "
            "JOIN t1 AS a ON s1.id = a.id JOIN t1 AS b ON s1.id = b.id;",
            "multiple occurrences of the same source. Source: 'T1'"),
]
# fmt: on

CASES = [*_stream_table_table(), *_tables(), *_OTHERS, *_REFUSED]
