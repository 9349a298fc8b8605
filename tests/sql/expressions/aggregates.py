"""Aggregates over the rows of one group."""

from __future__ import annotations

from decimal import Decimal
from math import nan, sqrt

from tests.sql.expressions.cases import Case, cases

COLUMNS = (
    "i INT", "x DOUBLE", "d DECIMAL(4, 2)", "s STRING", "a ARRAY<INT>", "m MAP<STRING, INT>",
    "st STRUCT<a INT>", "same STRING", "never INT",
)  # fmt: skip

_NEVER = "CAST(NULL AS INT)"

#: In the order of their offsets.
ROWS = [
    ("3", "1.0D", "1.25BD", "'b'", "array(1)", "map('k', 1)", "named_struct('A', 1)", "'z'", _NEVER),
    ("CAST(NULL AS INT)", "2.0D", "CAST(NULL AS DECIMAL(4,2))", "'a'", "array(2)", "map('k', 2)",
     "named_struct('A', 2)", "'z'", _NEVER),
    ("5", "4.0D", "2.50BD", "CAST(NULL AS STRING)", "array(1)", "map('k', 1)", "named_struct('A', 1)", "'z'", _NEVER),
    ("3", "5.0D", "10.00BD", "'a'", "array(1)", "map('k', 1)", "named_struct('A', 1)", "'z'", _NEVER),
    ("CAST(NULL AS INT)", "CAST(NULL AS DOUBLE)", "CAST(NULL AS DECIMAL(4,2))", "'c'", "CAST(NULL AS ARRAY<INT>)",
     "map('k', 3)", "named_struct('A', 1)", "'z'", _NEVER),
]  # fmt: skip

CASES: list[Case] = [
    *cases("COUNT", ("COUNT(*)", 5), ("COUNT()", 5), ("COUNT(i)", 3), ("COUNT(never)", 0)),
    *cases(
        "COUNT_DISTINCT", ("COUNT_DISTINCT(s)", 3), ("COUNT_DISTINCT(never)", 0), ("COUNT_DISTINCT(a)", 2)
    ),
    *cases("SUM", ("SUM(i)", 11), ("SUM(x)", 12.0), ("SUM(d)", Decimal("13.75")), ("SUM(never)", 0)),
    *cases("AVG", ("AVG(i)", 11 / 3), ("AVG(x)", 3.0), ("AVG(d)", 13.75 / 3), ("AVG(never)", 0.0)),
    *cases("MIN", ("MIN(i)", 3), ("MIN(s)", "a"), ("MIN(d)", Decimal("1.25")), ("MIN(never)", None)),
    *cases("MAX", ("MAX(i)", 5), ("MAX(s)", "c"), ("MAX(never)", None)),
    *cases(
        "LATEST_BY_OFFSET",
        ("LATEST_BY_OFFSET(i)", 3),
        ("LATEST_BY_OFFSET(i, TRUE)", 3),
        ("LATEST_BY_OFFSET(i, FALSE)", None),
        ("LATEST_BY_OFFSET(i, 2)", [5, 3]),
        ("LATEST_BY_OFFSET(i, 3, FALSE)", [5, 3, None]),
        ("LATEST_BY_OFFSET(s, 9)", ["b", "a", "a", "c"]),
        ("LATEST_BY_OFFSET(never)", None),
        ("LATEST_BY_OFFSET(never, 2)", []),
    ),
    *cases(
        "EARLIEST_BY_OFFSET",
        ("EARLIEST_BY_OFFSET(i)", 3),
        ("EARLIEST_BY_OFFSET(i, 2)", [3, 5]),
        ("EARLIEST_BY_OFFSET(i, 2, FALSE)", [3, None]),
        ("EARLIEST_BY_OFFSET(s, 2)", ["b", "a"]),
        ("EARLIEST_BY_OFFSET(st)", {"A": 1}),
    ),
    *cases(
        "TOPK",
        ("TOPK(i, 2)", [5, 3]),
        ("TOPK(i, 9)", [5, 3, 3]),
        ("TOPK(x, s, 2)", [{"sort_col": 5.0, "col0": "a"}, {"sort_col": 4.0, "col0": None}]),
        ("TOPK(x, s, i, 1)", [{"sort_col": 5.0, "col0": "a", "col1": 3}]),
        ("TOPK(never, 2)", []),
    ),
    *cases("TOPKDISTINCT", ("TOPKDISTINCT(i, 9)", [5, 3]), ("TOPKDISTINCT(s, 2)", ["c", "b"])),
    *cases(
        "COLLECT_LIST",
        ("COLLECT_LIST(i)", [3, None, 5, 3, None]),
        ("COLLECT_LIST(s)", ["b", "a", None, "a", "c"]),
        ("COLLECT_LIST(m)[5]['k']", 3),
        ("COLLECT_LIST(st)[2]->a", 2),
    ),
    *cases(
        "COLLECT_SET",
        ("COLLECT_SET(i)", [3, None, 5]),
        ("COLLECT_SET(a)", [[1], [2], None]),
        ("COLLECT_SET(st)", [{"A": 1}, {"A": 2}]),
        ("COLLECT_SET(m)", [{"k": 1}, {"k": 2}, {"k": 3}]),
    ),
    *cases("HISTOGRAM", ("HISTOGRAM(s)", {"b": 1, "a": 2, "c": 1}), ("HISTOGRAM(same)", {"z": 5})),
    *cases("ATTR", ("ATTR(same)", "z"), ("ATTR(s)", None), ("ATTR(i)", None), ("ATTR(never)", None)),
    *cases("STDDEV_SAMP", ("STDDEV_SAMP(x)", 10 / 3), ("STDDEV_SAMP(never)", 0.0)),
    *cases("STDDEV_SAMPLE", ("STDDEV_SAMPLE(x)", sqrt(10 / 3)), ("STDDEV_SAMPLE(never)", 0.0)),
    *cases("SUM_LIST", ("SUM_LIST(a)", 5)),
    *cases(
        "CORRELATION",
        ("CORRELATION(x, x)", 1.0),
        ("CORRELATION(x, -x)", -1.0),
        ("CORRELATION(never, x)", nan),
    ),
]
