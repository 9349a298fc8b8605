"""Aggregate functions over a stream: the value after each record, mostly about nulls."""

from __future__ import annotations

from math import sqrt
from typing import Any

from tests.sql.cases.case import Case, In, Out, refused


def _after_each(
    function: str,
    name: str,
    kind: str,
    expression: str,
    values: list[Any],
    results: list[Any],
    *,
    telling: bool = False,
) -> Case:
    """Return a case with successive values of a column in one group, and the results."""
    return Case(
        name,
        f"CREATE STREAM s (k STRING KEY, v {kind}) WITH (kafka_topic='s', partitions=1);"
        f"CREATE TABLE o AS SELECT k, {expression} AS r FROM s GROUP BY k;",
        [In("s", "x", {"v": value}, 10 + number) for number, value in enumerate(values)],
        [Out("O", "x", {"R": result}, 10 + number) for number, result in enumerate(results)],
        grouped=function,
        telling=telling,
    )


def _rows(function: str, name: str, expression: str, rows: list[dict[str, Any]], results: list[Any]) -> Case:
    return Case(
        name,
        "CREATE STREAM s (k STRING KEY, a INT, b DOUBLE, c STRING, d STRUCT<e INT, f STRING>) "
        "WITH (kafka_topic='s', partitions=1);"
        f"CREATE TABLE o AS SELECT k, {expression} AS r FROM s GROUP BY k;",
        [In("s", "x", row, 10 + number) for number, row in enumerate(rows)],
        [Out("O", "x", {"R": result}, 10 + number) for number, result in enumerate(results)],
        grouped=function,
    )


def _refused(function: str, name: str, expression: str, reason: str) -> Case:
    return refused(
        function,
        name,
        "CREATE STREAM s (k STRING KEY, v INT, w STRING) WITH (kafka_topic='s', partitions=1);"
        f"CREATE TABLE o AS SELECT k, {expression} AS r FROM s GROUP BY k;",
        reason,
    )


COUNTS = [
    _after_each("COUNT", "of rows", "INT", "COUNT(*)", [1, None, 1], [1, 2, 3], telling=True),
    _after_each("COUNT", "without an argument", "INT", "COUNT()", [1, None], [1, 2]),
    _after_each("COUNT", "of a literal", "INT", "COUNT(1)", [None, 1], [1, 2]),
    _after_each("COUNT", "of a column counts what is not null", "INT", "COUNT(v)", [1, None, 2], [1, 1, 2]),
    _after_each("COUNT", "of an expression", "INT", "COUNT(NULLIF(v, 2))", [1, 2, 3], [1, 1, 2]),
    _after_each("COUNT_DISTINCT", "of texts", "STRING", "COUNT_DISTINCT(v)", ["a", "b", "a"], [1, 2, 2]),
    _after_each("COUNT_DISTINCT", "without nulls", "INT", "COUNT_DISTINCT(v)", [None, 1, None], [0, 1, 1]),
    _after_each("COUNT_DISTINCT", "of arrays", "ARRAY<INT>", "COUNT_DISTINCT(v)", [[1], [1], [2]], [1, 1, 2]),
]

SUMS = [
    _after_each("SUM", "of INT", "INT", "SUM(v)", [1, 2, -5], [1, 3, -2]),
    _after_each("SUM", "of BIGINT", "BIGINT", "SUM(v)", [2**40, 1], [2**40, 2**40 + 1]),
    _after_each("SUM", "of DOUBLE", "DOUBLE", "SUM(v)", [0.5, 1.25], [0.5, 1.75]),
    _after_each("SUM", "of DECIMAL", "DECIMAL(6, 2)", "SUM(v)", [1.25, 2.5], [1.25, 3.75]),
    _after_each("SUM", "leaves nulls out", "INT", "SUM(v)", [None, 2, None], [0, 2, 2]),
    _after_each("SUM", "of an INT overflows", "INT", "SUM(v)", [2147483647, 1], [2147483647, -2147483648]),
    _after_each("SUM", "of an expression", "INT", "SUM(v * 2)", [1, 2], [2, 6]),
    _after_each("AVG", "of INT", "INT", "AVG(v)", [1, 2], [1.0, 1.5]),
    _after_each("AVG", "leaves nulls out", "DOUBLE", "AVG(v)", [None, 2.0, None, 4.0], [0.0, 2.0, 2.0, 3.0]),
    _after_each("AVG", "of DECIMAL", "DECIMAL(4, 1)", "AVG(v)", [1.5, 2.5], [1.5, 2.0]),
    _after_each("AVG", "of * is that of the times", "INT", "AVG(*)", [1, 1, 1], [10.0, 10.5, 11.0]),
    _after_each("SUM", "of nothing is that of the times", "INT", "SUM()", [1, 1], [10, 21]),
    _after_each("STDDEV_SAMP", "of DOUBLE", "DOUBLE", "STDDEV_SAMP(v)", [1.0, 3.0, 5.0], [0.0, 2.0, 4.0]),
    _after_each("STDDEV_SAMP", "of INT with nulls", "INT", "STDDEV_SAMP(v)", [1, None, 3], [0.0, 0.0, 2.0]),
    _after_each("STDDEV_SAMPLE", "of DOUBLE", "DOUBLE", "STDDEV_SAMPLE(v)", [1.0, 3.0, 5.0], [0.0, sqrt(2), 2.0]),
    _rows(
        "CORRELATION", "of two columns", "CORRELATION(a, b)",
        [{"a": 1, "b": 2.0}, {"a": 2, "b": 4.0}, {"a": None, "b": 9.0}, {"a": 3, "b": 6.0}],
        ["NaN", 1.0, 1.0, 1.0],
    ),
    _rows("CORRELATION", "the other way round", "CORRELATION(a, -b)", [{"a": 1, "b": 2.0}, {"a": 2, "b": 4.0}],
          ["NaN", -1.0]),
]  # fmt: skip

EXTREMES = [
    _after_each("MIN", "of INT", "INT", "MIN(v)", [3, 1, 2], [3, 1, 1]),
    _after_each("MIN", "leaves nulls out", "INT", "MIN(v)", [None, 3, None], [None, 3, 3]),
    _after_each("MIN", "of texts", "STRING", "MIN(v)", ["b", "a", "c"], ["b", "a", "a"]),
    _after_each("MIN", "of DECIMAL", "DECIMAL(4, 1)", "MIN(v)", [2.5, -1.5], [2.5, -1.5]),
    _after_each("MIN", "of DATE", "DATE", "MIN(v)", [20, 10], [20, 10]),
    _after_each("MAX", "of BIGINT", "BIGINT", "MAX(v)", [3, 1, 2**40], [3, 3, 2**40]),
    _after_each("MAX", "leaves nulls out", "DOUBLE", "MAX(v)", [None, 1.5, None], [None, 1.5, 1.5]),
    _after_each("MAX", "of texts", "STRING", "MAX(v)", ["b", "a", "c"], ["b", "b", "c"]),
    _after_each("MAX", "of TIMESTAMP", "TIMESTAMP", "MAX(v)", [1000, 5000, 3000], [1000, 5000, 5000]),
    _after_each("MAX", "of TIME", "TIME", "MAX(v)", [1000, 5000, 3000], [1000, 5000, 5000]),
    _after_each("TOPK", "of INT", "INT", "TOPK(v, 2)", [1, 3, 2], [[1], [3, 1], [3, 2]]),
    _after_each("TOPK", "keeps equal ones", "INT", "TOPK(v, 2)", [3, 3, 1], [[3], [3, 3], [3, 3]]),
    _after_each("TOPK", "leaves nulls out", "INT", "TOPK(v, 2)", [None, 1, None], [[], [1], [1]]),
    _after_each("TOPK", "of texts", "STRING", "TOPK(v, 2)", ["a", "c", "b"], [["a"], ["c", "a"], ["c", "b"]]),
    _rows(
        "TOPK", "with another column", "TOPK(a, c, 2)",
        [{"a": 1, "c": "p"}, {"a": 3, "c": "q"}, {"a": 2, "c": None}],
        [[{"sort_col": 1, "col0": "p"}], [{"sort_col": 3, "col0": "q"}, {"sort_col": 1, "col0": "p"}],
         [{"sort_col": 3, "col0": "q"}, {"sort_col": 2, "col0": None}]],
    ),
    _after_each("TOPKDISTINCT", "of INT", "INT", "TOPKDISTINCT(v, 2)", [3, 3, 1, 5], [[3], [3], [3, 1], [5, 3]]),
    _after_each("TOPKDISTINCT", "leaves nulls out", "STRING", "TOPKDISTINCT(v, 2)", [None, "a"], [[], ["a"]]),
]  # fmt: skip

_STRUCTS: list[dict[str, Any]] = [
    {"d": {"e": 1, "f": "x"}},
    {"d": {"e": 2, "f": None}},
    {"d": {"e": 1, "f": "x"}},
]
_SHOWN = [{"E": 1, "F": "x"}, {"E": 2, "F": None}, {"E": 1, "F": "x"}]

COLLECTED = [
    _after_each("COLLECT_LIST", "in order, with nulls", "INT", "COLLECT_LIST(v)", [2, None, 2, 1],
                [[2], [2, None], [2, None, 2], [2, None, 2, 1]]),
    _after_each("COLLECT_LIST", "of texts", "STRING", "COLLECT_LIST(v)", ["b", "a"], [["b"], ["b", "a"]]),
    _after_each("COLLECT_LIST", "of TIMESTAMP", "TIMESTAMP", "COLLECT_LIST(v)", [5000, 1000], [[5000], [5000, 1000]]),
    _after_each("COLLECT_LIST", "of maps", "MAP<STRING, INT>", "COLLECT_LIST(v)", [{"a": 1}, {"b": 2}],
                [[{"a": 1}], [{"a": 1}, {"b": 2}]]),
    _rows("COLLECT_LIST", "of structs", "COLLECT_LIST(d)", _STRUCTS, [_SHOWN[:1], _SHOWN[:2], _SHOWN]),
    _after_each("COLLECT_SET", "each once, with null", "INT", "COLLECT_SET(v)", [2, None, 2, 1, None],
                [[2], [2, None], [2, None], [2, None, 1], [2, None, 1]]),
    _after_each("COLLECT_SET", "of texts", "STRING", "COLLECT_SET(v)", ["b", "a", "b"], [["b"], ["b", "a"], ["b",
             "a"]]),
    _after_each("COLLECT_SET", "of arrays", "ARRAY<INT>", "COLLECT_SET(v)", [[1], [1], [2]],
                [[[1]], [[1]], [[1], [2]]]),
    _after_each("COLLECT_SET", "of maps", "MAP<STRING, INT>", "COLLECT_SET(v)", [{"a": 1}, {"a": 1}, {"a": 2}],
                [[{"a": 1}], [{"a": 1}], [{"a": 1}, {"a": 2}]]),
    _rows("COLLECT_SET", "of structs", "COLLECT_SET(d)", _STRUCTS, [_SHOWN[:1], _SHOWN[:2], _SHOWN[:2]]),
    _after_each("HISTOGRAM", "of texts", "STRING", "HISTOGRAM(v)", ["a", "b", "a", None],
                [{"a": 1}, {"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2, "b": 1}]),
    _after_each("ATTR", "the value that all have", "STRING", "ATTR(v)", ["a", "a", "b"], ["a", "a", None]),
    _after_each("ATTR", "null is a value, too", "INT", "ATTR(v)", [1, None], [1, None]),
    _after_each("ATTR", "of nulls", "INT", "ATTR(v)", [None, None], [None, None]),
]  # fmt: skip

BY_OFFSET = [
    _after_each("LATEST_BY_OFFSET", "of INT", "INT", "LATEST_BY_OFFSET(v)", [1, 3, 2], [1, 3, 2]),
    _after_each("LATEST_BY_OFFSET", "leaves nulls out", "INT", "LATEST_BY_OFFSET(v)", [None, 1, None], [None, 1, 1]),
    _after_each("LATEST_BY_OFFSET", "takes nulls if asked to", "INT", "LATEST_BY_OFFSET(v, false)", [1, None],
             [1, None]),
    _after_each("LATEST_BY_OFFSET", "several", "INT", "LATEST_BY_OFFSET(v, 2)", [1, 2, None, 3],
                [[1], [1, 2], [1, 2], [2, 3]]),
    _after_each("LATEST_BY_OFFSET", "several with nulls", "INT", "LATEST_BY_OFFSET(v, 2, false)", [1, None, 3],
                [[1], [1, None], [None, 3]]),
    _after_each("EARLIEST_BY_OFFSET", "of texts", "STRING", "EARLIEST_BY_OFFSET(v)", ["b", "a"], ["b", "b"]),
    _after_each("EARLIEST_BY_OFFSET", "leaves nulls out", "INT", "EARLIEST_BY_OFFSET(v)", [None, 2, 1], [None, 2, 2]),
    _after_each("EARLIEST_BY_OFFSET", "takes nulls if asked to", "INT", "EARLIEST_BY_OFFSET(v, false)", [None, 2],
                [None, None]),
    _after_each("EARLIEST_BY_OFFSET", "several", "INT", "EARLIEST_BY_OFFSET(v, 2)", [1, None, 2, 3],
                [[1], [1], [1, 2], [1, 2]]),
    _rows("LATEST_BY_OFFSET", "of a struct", "LATEST_BY_OFFSET(d)->e", _STRUCTS, [1, 2, 1]),
    Case(
        "goes by the offset, not by the time",
        "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', partitions=1);"
        "CREATE TABLE o AS SELECT k, LATEST_BY_OFFSET(v) AS l, EARLIEST_BY_OFFSET(v) AS e FROM s GROUP BY k;",
        [In("s", "x", {"v": 1}, 50), In("s", "x", {"v": 2}, 20)],
        [Out("O", "x", {"L": 1, "E": 1}, 50), Out("O", "x", {"L": 2, "E": 1}, 50)],
        grouped="LATEST_BY_OFFSET",
    ),
]  # fmt: skip

REFUSED = [
    _refused("COUNT", "DISTINCT", "COUNT(DISTINCT v)", "use COUNT_DISTINCT"),
    _refused("TOPK", "without how many", "TOPK(v)", "TOPK takes a column and how many"),
    _refused("CORRELATION", "of one column", "CORRELATION(v)", "it takes 2 arguments, not 1"),
    _refused("SUM", "of two columns", "SUM(v, v)", "it takes 1 argument, not 2"),
]

CASES: list[Case] = [*COUNTS, *SUMS, *EXTREMES, *COLLECTED, *BY_OFFSET, *REFUSED]
