"""Python functions in queries: scalar, aggregate and table functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sql.cases.case import Case, In, Out

FILE = str(Path(__file__).parents[1] / "user_functions" / "shop_functions.py")
_S = "CREATE STREAM s (k STRING KEY, t STRING, n INT, w ARRAY<STRING>) WITH (kafka_topic='s', partitions=1);"
_T = "CREATE TABLE t (k STRING PRIMARY KEY, g STRING, v DOUBLE, w DOUBLE) WITH (kafka_topic='t', partitions=1);"
UDF, UDTF, UDAF = "functions of Python", "table functions", "aggregates of Python"


def _case(
    grouped: str, name: str, statements: str, inputs: list[In], outputs: list[Out], *, telling: bool = False
) -> Case:
    return Case(name, statements, inputs, outputs, grouped=grouped, telling=telling, functions=(FILE,))


def _mapped(name: str, expression: str, values: list[dict[str, Any]], results: list[Any]) -> Case:
    return _case(
        UDF,
        name,
        f"{_S}CREATE STREAM o AS SELECT k, {expression} AS r FROM s;",
        [In("s", "x", value, 10 + number) for number, value in enumerate(values)],
        [Out("O", "x", {"R": result}, 10 + number) for number, result in enumerate(results)],
    )


def _exploded(name: str, select: str, value: dict[str, Any], rows: list[dict[str, Any]]) -> Case:
    return _case(
        UDTF,
        name,
        f"{_S}CREATE STREAM o AS SELECT k, {select} FROM s;",
        [In("s", "x", value, 10)],
        [Out("O", "x", row, 10) for row in rows],
    )


def _refused(grouped: str, name: str, statements: str, reason: str) -> Case:
    return Case(name, statements, grouped=grouped, refused=reason, functions=(FILE,))


SCALAR = [
    _mapped("a value of a value", "SHOUT(t)", [{"t": "a"}, {"t": "b"}], ["A!", "B!"]),
    _mapped("another signature", "SHOUT(t, n)", [{"t": "a", "n": 3}], ["A!!!"]),
    _mapped("null where it takes none", "SHOUT(t)", [{"t": None}], [None]),
    _mapped("null where it takes it", "OR_NONE(t)", [{"t": None}], ["nothing"]),
    _mapped("it fails: null, and the query goes on", "DIVIDED(6, n)", [{"n": 0}, {"n": 2}], [None, 3]),
    _mapped("a result of another type is null", "OF_ANOTHER_TYPE(t)", [{"t": "wrong"}, {"t": "ok"}], [None, 2]),
    _mapped("within other functions", "LCASE(SHOUT(UCASE(t)))", [{"t": "Ab"}], ["ab!"]),
    _mapped("any number of arguments", "TOTAL(n, 1, 2)", [{"n": 4}], [7]),
    _mapped("without arguments", "ANSWER()", [{"n": 4}], [42]),
    _mapped("over Arrow's arrays", "DOUBLED(n)", [{"n": 4}, {"n": None}], [8, None]),
    _case(UDF, "in WHERE", f"{_S}CREATE STREAM o AS SELECT k, n FROM s WHERE SHOUT(t) = 'A!';",
          [In("s", "x", {"t": "a", "n": 1}), In("s", "x", {"t": "b", "n": 2})], [Out("O", "x", {"N": 1})]),
    _case(UDF, "of an aggregate", f"{_S}CREATE TABLE o AS SELECT k, SHOUT(MAX(t)) AS r FROM s GROUP BY k;",
          [In("s", "x", {"t": "a"}), In("s", "x", {"t": "b"})], [Out("O", "x", {"R": "A!"}), Out("O", "x",
          {"R": "B!"})]),
    _case(UDF, "as a group", f"{_S}CREATE TABLE o AS SELECT SHOUT(t) AS g, COUNT(*) AS n FROM s GROUP BY SHOUT(t);",
          [In("s", "x", {"t": "a"}), In("s", "y", {"t": "A"})], [Out("O", "A!", {"N": 1}), Out("O", "A!", {"N": 2})]),
]  # fmt: skip

TABLES = [
    _exploded("EXPLODE", "EXPLODE(w) AS e", {"w": ["a", None, "b"]}, [{"E": "a"}, {"E": None}, {"E": "b"}]),
    _exploded("of an empty array no rows", "EXPLODE(w) AS e", {"w": []}, []),
    _exploded("of null no rows", "EXPLODE(w) AS e", {"w": None}, []),
    _exploded("of Python", "WORDS(t) AS e", {"t": "a b"}, [{"E": "a"}, {"E": "b"}]),
    _exploded("of Python, and it is given null", "WORDS(t) AS e", {"t": None}, []),
    _exploded("two are zipped, the shorter one with null", "EXPLODE(w) AS e, UP_TO(n) AS u", {"w": ["a", "b"], "n": 3},
              [{"E": "a", "U": 1}, {"E": "b", "U": 2}, {"E": None, "U": 3}]),
    _exploded("two, one of them without rows", "EXPLODE(w) AS e, UP_TO(n) AS u", {"w": None, "n": 2},
              [{"E": None, "U": 1}, {"E": None, "U": 2}]),
    _exploded("within an expression", "LEN(EXPLODE(w)) + n AS e", {"w": ["a", "bb"], "n": 1}, [{"E": 2}, {"E": 3}]),
    _exploded("beside columns", "n, WORDS(t) AS e", {"t": "a b", "n": 7}, [{"N": 7, "E": "a"}, {"N": 7, "E": "b"}]),
]  # fmt: skip

_LONGEST = f"{_S}CREATE TABLE o AS SELECT k, LONGEST(t) AS r FROM s"

AGGREGATES = [
    _case(UDAF, "over a stream", f"{_LONGEST} GROUP BY k;",
          [In("s", "x", {"t": each}, 10) for each in ("a", None, "ccc", "bb")],
          [Out("O", "x", {"R": each}, 10) for each in ("a", "a", "ccc", "ccc")], telling=True),
    _case(UDAF, "over tumbling windows", f"{_LONGEST} WINDOW TUMBLING (SIZE 10 MILLISECONDS) GROUP BY k;",
          [In("s", "x", {"t": "aa"}, 5), In("s", "x", {"t": "b"}, 12)],
          [Out("O", "x", {"R": "aa"}, 5, (0, 10)), Out("O", "x", {"R": "b"}, 12, (10, 20))]),
    _case(UDAF, "over sessions that merge", f"{_LONGEST} WINDOW SESSION (10 MILLISECONDS) GROUP BY k;",
          [In("s", "x", {"t": "aa"}, 0), In("s", "x", {"t": "b"}, 20), In("s", "x", {"t": "c"}, 10)],
          [Out("O", "x", {"R": "aa"}, 0, (0, 0)), Out("O", "x", {"R": "b"}, 20, (20, 20)),
           Out("O", "x", None, 0, (0, 0)), Out("O", "x", None, 20, (20, 20)), Out("O", "x", {"R": "aa"}, 20, (0, 20))]),
    _case(UDAF, "with a setting, over a table, with undo",
          f"{_T}CREATE TABLE o AS SELECT g, WEIGHTED(v, w, 1) AS r FROM t GROUP BY g;",
          [In("t", "a", {"g": "x", "v": 1.0, "w": 1.0}), In("t", "b", {"g": "x", "v": 4.0, "w": 2.0}),
           In("t", "a", {"g": "y", "v": 2.0, "w": 1.0})],
          [Out("O", "x", {"R": 1.0}), Out("O", "x", {"R": 3.0}), Out("O", "x", {"R": 4.0}), Out("O", "y", {"R": 2.0})]),
    _case(UDAF, "beside those of ksqlDB",
          f"{_S}CREATE TABLE o AS SELECT k, LONGEST(t) AS r, COUNT(*) AS n FROM s GROUP BY k;",
          [In("s", "x", {"t": "a"})], [Out("O", "x", {"R": "a", "N": 1})]),
]  # fmt: skip

REFUSED = [
    _refused(UDF, "arguments of another type", f"{_S}CREATE STREAM o AS SELECT k, SHOUT(n) FROM s;",
             "Function 'SHOUT' does not accept parameters (INTEGER). Valid alternatives are: SHOUT(text VARCHAR)"),
    _refused(UDTF, "with GROUP BY", f"{_S}CREATE TABLE o AS SELECT k, WORDS(t), COUNT(*) FROM s GROUP BY k;",
             "Table functions cannot be used with aggregations."),
    _refused(UDTF, "of a table function", f"{_S}CREATE STREAM o AS SELECT k, UP_TO(LEN(WORDS(t))) FROM s;",
             "cannot be the argument of another one"),
    _refused(UDAF, "without undo over a table", f"{_T}CREATE TABLE o AS SELECT g, LONGEST(k) FROM t GROUP BY g;",
             "The aggregation function LONGEST cannot be applied to a table source, only to a stream source."),
]  # fmt: skip

CASES: list[Case] = [*SCALAR, *TABLES, *AGGREGATES, *REFUSED]
