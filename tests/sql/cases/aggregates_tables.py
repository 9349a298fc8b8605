"""Aggregates over tables: a changed row leaves its old group before it joins the new one."""

from __future__ import annotations

from typing import Any

from tests.sql.cases.case import Case, In, Out, refused

_T = "CREATE TABLE t (k STRING PRIMARY KEY, g STRING, v INT) WITH (kafka_topic='t', partitions=1);"
GROUPED = "GROUP BY of a table"


def _row(key: str, group: str | None, value: int | None, ts: int = 0) -> In:
    return In("t", key, {"g": group, "v": value}, ts)


def _gone(key: str, ts: int = 0) -> In:
    return In("t", key, None, ts)


def _case(
    name: str, select: str, inputs: list[In], outputs: list[tuple[Any, Any]], *, telling: bool = False
) -> Case:
    return Case(
        name,
        f"{_T}CREATE TABLE o AS {select};",
        inputs,
        [Out("O", key, value) for key, value in outputs],
        grouped=GROUPED,
        telling=telling,
    )


_COUNT = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
_SUM = "SELECT g, SUM(v) AS s FROM t GROUP BY g"

COUNTED = [
    _case("rows of two keys", _COUNT, [_row("a", "x", 1), _row("b", "x", 1), _row("c", "y", 1)],
          [("x", {"N": 1}), ("x", {"N": 2}), ("y", {"N": 1})]),
    _case("a row moves to another group", _COUNT, [_row("a", "x", 1), _row("a", "y", 1)],
          [("x", {"N": 1}), ("x", {"N": 0}), ("y", {"N": 1})], telling=True),
    _case("a row moves and comes back", _COUNT, [_row("a", "x", 1), _row("a", "y", 1), _row("a", "x", 1)],
          [("x", {"N": 1}), ("x", {"N": 0}), ("y", {"N": 1}), ("y", {"N": 0}), ("x", {"N": 1})]),
    _case("a row is deleted", _COUNT, [_row("a", "x", 1), _row("b", "x", 1), _gone("a")],
          [("x", {"N": 1}), ("x", {"N": 2}), ("x", {"N": 1})]),
    _case("the last row is deleted: a count of 0 remains", _COUNT, [_row("a", "x", 1), _gone("a")],
          [("x", {"N": 1}), ("x", {"N": 0})]),
    _case("a row that is not there is deleted", _COUNT, [_gone("z"), _row("a", "x", 1)], [("x", {"N": 1})]),
    _case("deleted twice", _COUNT, [_row("a", "x", 1), _gone("a"), _gone("a")], [("x", {"N": 1}), ("x", {"N": 0})]),
    _case("a row changes within its group", _SUM, [_row("a", "x", 1), _row("a", "x", 5)],
          [("x", {"S": 1}), ("x", {"S": 5})]),
    _case("a group of null is none", _COUNT, [_row("a", None, 1), _row("b", "x", 1)], [("x", {"N": 1})]),
    _case("a row leaves for the group of null", _COUNT, [_row("a", "x", 1), _row("a", None, 1)],
          [("x", {"N": 1}), ("x", {"N": 0})]),
    _case("a row comes from the group of null", _COUNT, [_row("a", None, 1), _row("a", "x", 1)], [("x", {"N": 1})]),
    _case("a count of a column", "SELECT g, COUNT(v) AS n FROM t GROUP BY g",
          [_row("a", "x", None), _row("b", "x", 1), _row("b", "x", None)],
          [("x", {"N": 0}), ("x", {"N": 1}), ("x", {"N": 0})]),
    _case("by the key of the table", "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
          [_row("a", "x", 1), _row("a", "y", 1), _gone("a")], [("a", {"N": 1}), ("a", {"N": 1}), ("a", {"N": 0})]),
    _case("by an expression", "SELECT v % 2 AS odd, COUNT(*) AS n FROM t GROUP BY v % 2",
          [_row("a", "x", 1), _row("b", "x", 3), _row("a", "x", 2)],
          [(1, {"N": 1}), (1, {"N": 2}), (1, {"N": 1}), (0, {"N": 1})]),
    Case("by two columns",
         f"{_T}CREATE TABLE o WITH (key_format='JSON') AS SELECT g, v, COUNT(*) AS n FROM t GROUP BY g, v;",
         [_row("a", "x", 1), _row("a", "x", 2)],
         [Out("O", {"G": "x", "V": 1}, {"N": 1}), Out("O", {"G": "x", "V": 1}, {"N": 0}),
          Out("O", {"G": "x", "V": 2}, {"N": 1})], grouped=GROUPED),
    _case("the group as a value, too", "SELECT g, AS_VALUE(g) AS h, COUNT(*) AS n FROM t GROUP BY g",
          [_row("a", "x", 1)], [("x", {"H": "x", "N": 1})]),
]  # fmt: skip

FUNCTIONS = [
    _case("SUM with nulls", _SUM, [_row("a", "x", None), _row("b", "x", 3), _row("b", "x", None)],
          [("x", {"S": 0}), ("x", {"S": 3}), ("x", {"S": 0})]),
    _case("SUM of a row that moves", _SUM, [_row("a", "x", 3), _row("b", "x", 4), _row("a", "y", 5)],
          [("x", {"S": 3}), ("x", {"S": 7}), ("x", {"S": 4}), ("y", {"S": 5})]),
    _case("AVG", "SELECT g, AVG(v) AS r FROM t GROUP BY g",
          [_row("a", "x", 1), _row("b", "x", 4), _row("a", "x", 2), _gone("b"), _gone("a")],
          [("x", {"R": 1.0}), ("x", {"R": 2.5}), ("x", {"R": 3.0}), ("x", {"R": 2.0}), ("x", {"R": 0.0})]),
    _case("COLLECT_LIST takes the last of equal ones out", "SELECT g, COLLECT_LIST(v) AS r FROM t GROUP BY g",
          [_row("a", "x", 1), _row("b", "x", 2), _row("c", "x", 1), _gone("a")],
          [("x", {"R": [1]}), ("x", {"R": [1, 2]}), ("x", {"R": [1, 2, 1]}), ("x", {"R": [1, 2]})]),
    _case("COLLECT_LIST of a row that changes", "SELECT g, COLLECT_LIST(v) AS r FROM t GROUP BY g",
          [_row("a", "x", 1), _row("b", "x", 2), _row("a", "x", 3)],
          [("x", {"R": [1]}), ("x", {"R": [1, 2]}), ("x", {"R": [2, 3]})]),
    _case("HISTOGRAM", "SELECT g, HISTOGRAM(CAST(v AS STRING)) AS r FROM t GROUP BY g",
          [_row("a", "x", 1), _row("b", "x", 1), _row("a", "x", 2), _gone("a")],
          [("x", {"R": {"1": 1}}), ("x", {"R": {"1": 2}}), ("x", {"R": {"1": 1, "2": 1}}), ("x", {"R": {"1": 1}})]),
    _case("ATTR", "SELECT g, ATTR(v) AS r FROM t GROUP BY g",
          [_row("a", "x", 1), _row("b", "x", 2), _row("b", "x", 1), _gone("a"), _gone("b")],
          [("x", {"R": 1}), ("x", {"R": None}), ("x", {"R": 1}), ("x", {"R": 1}), ("x", {"R": None})]),
    _case("STDDEV_SAMP", "SELECT g, STDDEV_SAMP(v) AS r FROM t GROUP BY g",
          [_row("a", "x", 1), _row("b", "x", 3), _row("c", "x", 5), _gone("b")],
          [("x", {"R": 0.0}), ("x", {"R": 2.0}), ("x", {"R": 4.0}), ("x", {"R": 8.0})]),
    _case("several at once",
          "SELECT g, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m, SUM(v) + COUNT(*) AS b FROM t GROUP BY g",
          [_row("a", "x", 2), _row("b", "x", 4), _row("b", "y", 6)],
          [("x", {"N": 1, "S": 2, "M": 2.0, "B": 3}), ("x", {"N": 2, "S": 6, "M": 3.0, "B": 8}),
           ("x", {"N": 1, "S": 2, "M": 2.0, "B": 3}), ("y", {"N": 1, "S": 6, "M": 6.0, "B": 7})]),
]  # fmt: skip

CONDITIONS = [
    _case("HAVING takes zero counts out", f"{_COUNT} HAVING COUNT(*) > 0",
          [_row("a", "x", 1), _row("b", "x", 1), _gone("a"), _gone("b")],
          [("x", {"N": 1}), ("x", {"N": 2}), ("x", {"N": 1}), ("x", None)], telling=True),
    _case("HAVING says nothing of what it never took", f"{_COUNT} HAVING COUNT(*) > 1",
          [_row("a", "x", 1), _row("b", "y", 1), _row("c", "x", 1)], [("x", {"N": 2})]),
    _case("HAVING that comes and goes", f"{_SUM} HAVING SUM(v) > 2",
          [_row("a", "x", 3), _row("a", "x", 1), _row("a", "x", 0), _row("a", "x", 4)],
          [("x", {"S": 3}), ("x", None), ("x", {"S": 4})]),
    _case("a row that moves out of what HAVING takes", f"{_COUNT} HAVING COUNT(*) > 1",
          [_row("a", "x", 1), _row("b", "x", 1), _row("b", "y", 1)], [("x", {"N": 2}), ("x", None)]),
    _case("WHERE that a row leaves is a deletion", "SELECT g, COUNT(*) AS n FROM t WHERE v > 1 GROUP BY g",
          [_row("a", "x", 2), _row("b", "x", 1), _row("a", "x", 0), _row("b", "x", 5)],
          [("x", {"N": 1}), ("x", {"N": 0}), ("x", {"N": 1})]),
    _case("WHERE that no row passes", "SELECT g, COUNT(*) AS n FROM t WHERE v > 9 GROUP BY g",
          [_row("a", "x", 2), _gone("a")], []),
    Case("the time is the latest that the group has seen",
         f"{_T}CREATE TABLE o AS {_COUNT};",
         [_row("a", "x", 1, 50), _row("b", "x", 1, 20), _gone("b", 70)],
         [Out("O", "x", {"N": 1}, 50), Out("O", "x", {"N": 2}, 50), Out("O", "x", {"N": 1}, 70)], grouped=GROUPED),
    Case("a table of a table of a table",
         f"{_T}CREATE TABLE p AS SELECT g, SUM(v) AS s FROM t GROUP BY g;"
         "CREATE TABLE o AS SELECT s, COUNT(*) AS n FROM p GROUP BY s;",
         [_row("a", "x", 1), _row("b", "y", 1), _row("b", "y", 2)],
         [Out("O", 1, {"N": 1}), Out("O", 1, {"N": 2}), Out("O", 1, {"N": 1}), Out("O", 2, {"N": 1})],
         grouped=GROUPED),
]  # fmt: skip

_ONLY = "cannot be applied to a table source, only to a stream source."


def _refused(name: str, expression: str, reason: str) -> Case:
    return refused(GROUPED, name, f"{_T}CREATE TABLE o AS SELECT g, {expression} FROM t GROUP BY g;", reason)


REFUSED = [
    _refused("MIN", "MIN(v)", f"The aggregation function MIN {_ONLY}"),
    _refused("MAX", "MAX(v)", f"The aggregation function MAX {_ONLY}"),
    _refused("two of them", "MIN(v), MAX(v)", f"The aggregation functions MIN and MAX {_ONLY}"),
    _refused("three of them", "LATEST_BY_OFFSET(v), MIN(v), MAX(v)",
             f"The aggregation functions LATEST_BY_OFFSET, MIN and MAX {_ONLY}"),
    _refused("EARLIEST_BY_OFFSET", "EARLIEST_BY_OFFSET(v)", f"EARLIEST_BY_OFFSET {_ONLY}"),
    _refused("TOPK", "TOPK(v, 2)", f"TOPK {_ONLY}"),
    _refused("TOPKDISTINCT", "TOPKDISTINCT(v, 2)", f"TOPKDISTINCT {_ONLY}"),
    _refused("COLLECT_SET", "COLLECT_SET(v)", f"COLLECT_SET {_ONLY}"),
    _refused("COUNT_DISTINCT", "COUNT_DISTINCT(v)", f"COUNT_DISTINCT {_ONLY}"),
    refused(GROUPED, "WINDOW", f"{_T}CREATE TABLE o AS SELECT g, COUNT(*) FROM t WINDOW TUMBLING (SIZE 1 SECOND) "
            "GROUP BY g;", "WINDOW over a table is not supported"),
]  # fmt: skip

CASES: list[Case] = [*COUNTED, *FUNCTIONS, *CONDITIONS, *REFUSED]
