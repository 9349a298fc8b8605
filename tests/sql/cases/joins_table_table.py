"""Primary-key table joins: a change of either table changes the result, like in Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.sql.cases.case import Case, In, Out, refused

GROUPED = "JOIN of tables"
_L = "CREATE TABLE l (k INT PRIMARY KEY, a INT) WITH (kafka_topic='l', partitions=1);"
_R = "CREATE TABLE r (k INT PRIMARY KEY, b INT) WITH (kafka_topic='r', partitions=1);"

_KEY = {"INNER": "l.k", "LEFT": "l.k", "RIGHT": "r.k", "FULL": "ROWKEY"}
Row = tuple[int | None, int | None]


def left(a: int | None, ts: int, key: int | None = 1) -> In:
    return In("l", key, None if a is None else {"a": a}, ts)


def right(b: int | None, ts: int, key: int | None = 1) -> In:
    return In("r", key, None if b is None else {"b": b}, ts)


def o(row: Row | None, ts: int, key: int = 1) -> Out:
    return Out("O", key, None if row is None else {"A": row[0], "B": row[1]}, ts)


# The events, and the results for INNER, LEFT, RIGHT and FULL JOIN.
# fmt: off
_SCENARIOS: list[tuple[str, list[In], dict[str, list[Out]]]] = [
    ("only the left row", [left(10, 1)],
     {"INNER": [], "LEFT": [o((10, None), 1)], "RIGHT": [], "FULL": [o((10, None), 1)]}),
    ("only the right row", [right(20, 1)],
     {"INNER": [], "LEFT": [], "RIGHT": [o((None, 20), 1)], "FULL": [o((None, 20), 1)]}),
    ("left, then right", [left(10, 1), right(20, 2)],
     {"INNER": [o((10, 20), 2)], "LEFT": [o((10, None), 1), o((10, 20), 2)], "RIGHT": [o((10, 20), 2)],
      "FULL": [o((10, None), 1), o((10, 20), 2)]}),
    ("right, then left", [right(20, 1), left(10, 2)],
     {"INNER": [o((10, 20), 2)], "LEFT": [o((10, 20), 2)], "RIGHT": [o((None, 20), 1), o((10, 20), 2)],
      "FULL": [o((None, 20), 1), o((10, 20), 2)]}),
    ("the time is the later of both", [left(10, 9), right(20, 5)],
     {"INNER": [o((10, 20), 9)], "LEFT": [o((10, None), 9), o((10, 20), 9)], "RIGHT": [o((10, 20), 9)],
      "FULL": [o((10, None), 9), o((10, 20), 9)]}),
    ("the left row changes", [left(10, 1), right(20, 2), left(11, 3)],
     {"INNER": [o((10, 20), 2), o((11, 20), 3)], "LEFT": [o((10, None), 1), o((10, 20), 2), o((11, 20), 3)],
      "RIGHT": [o((10, 20), 2), o((11, 20), 3)], "FULL": [o((10, None), 1), o((10, 20), 2), o((11, 20), 3)]}),
    ("the right row changes", [left(10, 1), right(20, 2), right(21, 3)],
     {"INNER": [o((10, 20), 2), o((10, 21), 3)], "LEFT": [o((10, None), 1), o((10, 20), 2), o((10, 21), 3)],
      "RIGHT": [o((10, 20), 2), o((10, 21), 3)], "FULL": [o((10, None), 1), o((10, 20), 2), o((10, 21), 3)]}),
    ("the left row is deleted", [left(10, 1), right(20, 2), left(None, 3)],
     {"INNER": [o((10, 20), 2), o(None, 3)], "LEFT": [o((10, None), 1), o((10, 20), 2), o(None, 3)],
      "RIGHT": [o((10, 20), 2), o((None, 20), 3)], "FULL": [o((10, None), 1), o((10, 20), 2), o((None, 20), 3)]}),
    ("the right row is deleted", [left(10, 1), right(20, 2), right(None, 3)],
     {"INNER": [o((10, 20), 2), o(None, 3)], "LEFT": [o((10, None), 1), o((10, 20), 2), o((10, None), 3)],
      "RIGHT": [o((10, 20), 2), o(None, 3)], "FULL": [o((10, None), 1), o((10, 20), 2), o((10, None), 3)]}),
    ("both are deleted, the left first", [left(10, 1), right(20, 2), left(None, 3), right(None, 4)],
     {"INNER": [o((10, 20), 2), o(None, 3)], "LEFT": [o((10, None), 1), o((10, 20), 2), o(None, 3)],
      "RIGHT": [o((10, 20), 2), o((None, 20), 3), o(None, 4)],
      "FULL": [o((10, None), 1), o((10, 20), 2), o((None, 20), 3), o(None, 4)]}),
    ("both are deleted, the right first", [left(10, 1), right(20, 2), right(None, 3), left(None, 4)],
     {"INNER": [o((10, 20), 2), o(None, 3)], "LEFT": [o((10, None), 1), o((10, 20), 2), o((10, None), 3), o(None, 4)],
      "RIGHT": [o((10, 20), 2), o(None, 3)],
      "FULL": [o((10, None), 1), o((10, 20), 2), o((10, None), 3), o(None, 4)]}),
    ("a left row that was alone is deleted", [left(10, 1), left(None, 2)],
     {"INNER": [], "LEFT": [o((10, None), 1), o(None, 2)], "RIGHT": [], "FULL": [o((10, None), 1), o(None, 2)]}),
    ("a right row that was alone is deleted", [right(20, 1), right(None, 2)],
     {"INNER": [], "LEFT": [], "RIGHT": [o((None, 20), 1), o(None, 2)], "FULL": [o((None, 20), 1), o(None, 2)]}),
    ("deletions of what never was", [left(None, 1), right(None, 2)],
     {"INNER": [], "LEFT": [], "RIGHT": [], "FULL": []}),
    ("a deleted row comes back", [left(10, 1), right(20, 2), left(None, 3), left(12, 4)],
     {"INNER": [o((10, 20), 2), o(None, 3), o((12, 20), 4)],
      "LEFT": [o((10, None), 1), o((10, 20), 2), o(None, 3), o((12, 20), 4)],
      "RIGHT": [o((10, 20), 2), o((None, 20), 3), o((12, 20), 4)],
      "FULL": [o((10, None), 1), o((10, 20), 2), o((None, 20), 3), o((12, 20), 4)]}),
    ("rows of other keys", [left(10, 1, 1), right(20, 2, 2)],
     {"INNER": [], "LEFT": [o((10, None), 1, 1)], "RIGHT": [o((None, 20), 2, 2)],
      "FULL": [o((10, None), 1, 1), o((None, 20), 2, 2)]}),
]


def _scenarios() -> Iterator[Case]:
    for name, inputs, made in _SCENARIOS:
        for kind, outputs in made.items():
            query = f"CREATE TABLE o AS SELECT {_KEY[kind]} AS k, a, b FROM l {kind} JOIN r ON l.k = r.k;"
            telling = (name, kind) == ("both are deleted, the left first", "FULL")
            yield Case(f"{kind}: {name}", _L + _R + query, inputs, outputs, grouped=GROUPED, telling=telling)


def _query(name: str, query: str, inputs: list[In], outputs: list[Out], **more: Any) -> Case:
    return Case(name, f"{_L}{_R}{query}", inputs, outputs, grouped=GROUPED, **more)


_OTHERS = [
    _query("WHERE deletes what it no longer takes",
           "CREATE TABLE o AS SELECT l.k AS k, a, b FROM l JOIN r ON l.k = r.k WHERE a < b;",
           [left(10, 1), right(20, 2), left(30, 3), left(5, 4)], [o((10, 20), 2), o(None, 3), o((5, 20), 4)]),
    _query("SELECT *", "CREATE TABLE o AS SELECT * FROM l JOIN r ON l.k = r.k;", [left(10, 1), right(20, 2)],
           [Out("O", 1, {"L_A": 10, "R_K": 1, "R_B": 20}, 2)]),
    _query("SELECT * of a FULL JOIN has ROWKEY", "CREATE TABLE o AS SELECT * FROM l FULL JOIN r ON l.k = r.k;",
           [left(10, 1), right(20, 2)], [Out("O", 1, {"L_K": 1, "L_A": 10, "R_K": None, "R_B": None}, 1),
                                         Out("O", 1, {"L_K": 1, "L_A": 10, "R_K": 1, "R_B": 20}, 2)]),
    _query("LEFT: the key by the name of the right column",
           "CREATE TABLE o AS SELECT r.k AS k, a, b FROM l LEFT JOIN r ON l.k = r.k;", [left(10, 1)],
           [o((10, None), 1)]),
    _query("RIGHT: the key by the name of the left column",
           "CREATE TABLE o AS SELECT l.k AS k, a, b FROM l RIGHT JOIN r ON l.k = r.k;", [right(10, 1)],
           [o((None, 10), 1)]),
    _query("OUTER JOIN is a FULL JOIN", "CREATE TABLE o AS SELECT ROWKEY AS k, a, b FROM l OUTER JOIN r ON l.k = r.k;",
           [right(10, 1)], [o((None, 10), 1)]),
    _query("a table of a join as a source",
           "CREATE TABLE i AS SELECT l.k AS k, a, b FROM l JOIN r ON l.k = r.k;"
           "CREATE TABLE o AS SELECT k, a, b FROM i WHERE b > 20;",
           [left(10, 1), right(21, 2), right(None, 3)], [o((10, 21), 2), o(None, 3)]),
    _query("expressions", "CREATE TABLE o AS SELECT l.k AS k, a + IFNULL(b, 0) AS a, a * 2 AS b FROM l "
           "LEFT JOIN r ON l.k = r.k;", [left(10, 1), right(20, 2)], [o((10, 20), 1), o((30, 20), 2)]),
    _query("a FULL JOIN with the columns of both",
           "CREATE TABLE o AS SELECT ROWKEY, l.k, r.k, a, b FROM l FULL JOIN r ON l.k = r.k;",
           [right(20, 2)], [Out("O", 1, {"L_K": None, "R_K": 1, "A": None, "B": 20}, 2)]),
]

_REFUSED = [
    refused(GROUPED, "WITHIN", f"{_L}{_R}CREATE TABLE o AS SELECT * FROM l JOIN r WITHIN 1 HOUR ON l.k = r.k;",
            "A window definition was provided for a Table-Table join"),
    refused(GROUPED, "a stream of it", f"{_L}{_R}CREATE STREAM o AS SELECT * FROM l JOIN r ON l.k = r.k;",
            "Your SELECT query produces a TABLE."),
    refused(GROUPED, "not by the key of the right table",
            f"{_L}{_R}CREATE TABLE o AS SELECT * FROM l JOIN r ON l.k = r.b;",
            "primary key of the right input table. Got L.K = R.B."),
    refused(GROUPED, "with itself", f"{_L}CREATE TABLE o AS SELECT * FROM l JOIN l AS m ON l.k = m.k;",
            "self joins are not yet supported"),
    refused(GROUPED, "a FULL JOIN without ROWKEY",
            f"{_L}{_R}CREATE TABLE o AS SELECT l.k, a, b FROM l FULL JOIN r ON l.k = r.k;", "ROWKEY"),
    refused(GROUPED, "PARTITION BY", f"{_L}{_R}CREATE TABLE o AS SELECT * FROM l JOIN r ON l.k = r.k PARTITION BY a;",
            "PARTITION BY of a table is not supported"),
]
# fmt: on

CASES = [*_scenarios(), *_OTHERS, *_REFUSED]
