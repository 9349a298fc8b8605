"""Queries that ksqlDB runs: grouping expressions in the projection, keys of joins, names, times and properties."""

from __future__ import annotations

from tests.sql.cases.case import Case, In, Out

_S = "CREATE STREAM s (k STRING KEY, a INT, b STRING, n INT) WITH (kafka_topic='s', partitions=1);"
_IN = [
    In("s", "x", {"a": 1, "b": "p", "n": 10}, 1),
    In("s", "y", {"a": 1, "b": "q", "n": 20}, 2),
    In("s", "x", {"a": 2, "b": "p", "n": 30}, 3),
]
_GROUPS = "grouping expressions in the projection"


def _grouped(name: str, query: str, outputs: list[tuple[object, dict[str, object]]], clause: str) -> Case:
    return Case(
        f"{name}{' with ' + clause.split()[0] if clause else ''}",
        f"{_S}CREATE TABLE o WITH (key_format='JSON') AS SELECT {query} {clause};",
        _IN,
        [Out("O", key, value) for key, value in outputs],
        grouped=_GROUPS,
    )


#: Grouped by Spark and, with HAVING, by our own state.
_GROUPINGS = [
    _grouped(name, query, outputs, clause)
    for clause in ("", "HAVING COUNT(*) > 0")
    for name, query, outputs in (
        ("parentheses", "(a), COUNT(*) AS c FROM s GROUP BY a", [(1, {"C": 1}), (1, {"C": 2}), (2, {"C": 1})]),
        ("parentheses in GROUP BY", "a, COUNT(*) AS c FROM s GROUP BY (a)",
         [(1, {"C": 1}), (1, {"C": 2}), (2, {"C": 1})]),
        ("an alias", "(a) AS z, SUM(n) AS c FROM s GROUP BY a", [(1, {"C": 10}), (1, {"C": 30}), (2, {"C": 30})]),
        ("a sum in parentheses", "(a + n) AS z, COUNT(*) AS c FROM s GROUP BY a + n",
         [(11, {"C": 1}), (21, {"C": 1}), (32, {"C": 1})]),
        ("a function", "UCASE(b) AS z, COUNT(*) AS c FROM s GROUP BY UCASE(b)",
         [("P", {"C": 1}), ("Q", {"C": 1}), ("P", {"C": 2})]),
        ("a number", "1 AS one, COUNT(*) AS c FROM s GROUP BY 1", [(1, {"C": 1}), (1, {"C": 2}), (1, {"C": 3})]),
        ("a text", "'all' AS one, SUM(n) AS c FROM s GROUP BY 'all'",
         [("all", {"C": 10}), ("all", {"C": 30}), ("all", {"C": 60})]),
        ("AS_VALUE beside the key", "a, AS_VALUE(a) AS v, COUNT(*) AS c FROM s GROUP BY a",
         [(1, {"V": 1, "C": 1}), (1, {"V": 1, "C": 2}), (2, {"V": 2, "C": 1})]),
        ("AS_VALUE of an expression", "a + 1 AS z, AS_VALUE(a + 1) AS v, COUNT(*) AS c FROM s GROUP BY a + 1",
         [(2, {"V": 2, "C": 1}), (2, {"V": 2, "C": 2}), (3, {"V": 3, "C": 1})]),
        ("by AS_VALUE", "AS_VALUE(a) AS z, COUNT(*) AS c FROM s GROUP BY AS_VALUE(a)",
         [(1, {"C": 1}), (1, {"C": 2}), (2, {"C": 1})]),
        ("a calculation with the group", "a, a * 10 AS t, COUNT(*) + a AS c FROM s GROUP BY a",
         [(1, {"T": 10, "C": 2}), (1, {"T": 10, "C": 3}), (2, {"T": 20, "C": 3})]),
    )
]  # fmt: skip

_LR = (
    "CREATE STREAM l (k INT KEY, a INT) WITH (kafka_topic='l', partitions=1);"
    "CREATE STREAM r (k INT KEY, b INT) WITH (kafka_topic='r', partitions=1);"
)
_TABLES = (
    "CREATE TABLE l (k INT PRIMARY KEY, a INT) WITH (kafka_topic='l', partitions=1);"
    "CREATE TABLE r (k INT PRIMARY KEY, b INT) WITH (kafka_topic='r', partitions=1);"
)
_JOINS = [
    Case(
        "SELECT * of a RIGHT JOIN of streams",
        _LR + "CREATE STREAM o AS SELECT * FROM l RIGHT JOIN r WITHIN 1 MINUTE ON l.k = r.k;",
        [In("r", 1, {"b": 2}, 1), In("l", 1, {"a": 3}, 2)],
        [
            Out("O", 1, {"L_A": None, "R_K": 1, "R_B": 2}, 1),
            Out("O", 1, {"L_A": 3, "R_K": 1, "R_B": 2}, 2),
        ],
        grouped="keys of joins",
        ways=("record by record",),
    ),
    Case(
        "SELECT * of a RIGHT JOIN of tables",
        _TABLES + "CREATE TABLE o AS SELECT * FROM l RIGHT JOIN r ON l.k = r.k;",
        [In("r", 1, {"b": 2}, 1), In("l", 1, {"a": 3}, 2)],
        [
            Out("O", 1, {"L_A": None, "R_K": 1, "R_B": 2}, 1),
            Out("O", 1, {"L_A": 3, "R_K": 1, "R_B": 2}, 2),
        ],
        grouped="keys of joins",
    ),
    Case(
        "the right column of a RIGHT JOIN",
        _TABLES + "CREATE TABLE o AS SELECT r.k AS k, a, b FROM l RIGHT JOIN r ON l.k = r.k;",
        [In("r", 1, {"b": 2}, 1), In("l", 1, {"a": 3}, 2)],
        [Out("O", 1, {"A": None, "B": 2}, 1), Out("O", 1, {"A": 3, "B": 2}, 2)],
        grouped="keys of joins",
    ),
]

_STRUCT = (
    "CREATE STREAM s (k INT KEY, a STRUCT<b INT, c STRUCT<b INT>>, b INT, d STRUCT<b INT, e INT>) "
    "WITH (kafka_topic='s', partitions=1);"
)
_VALUE = {"a": {"b": 1, "c": {"b": 2}}, "b": 3, "d": {"b": 4, "e": 5}}


def _named(name: str, items: str, value: dict[str, int]) -> Case:
    return Case(
        name,
        f"{_STRUCT}CREATE STREAM o AS SELECT k, {items} FROM s;",
        [In("s", 1, _VALUE, 5)],
        [Out("O", 1, value, 5)],
        grouped="names of struct fields",
    )


_NAMES = [
    _named("beside the column", "b, a->b", {"B": 3, "B_1": 1}),
    _named("before the column", "a->b, b", {"B_1": 1, "B": 3}),
    _named("without the column", "a->b", {"B_1": 1}),
    _named("two fields", "a->b, d->b", {"B_1": 1, "B_2": 4}),
    _named("three fields", "a->b, a->c->b, d->b", {"B_1": 1, "B_2": 2, "B_3": 4}),
    _named("no such column", "d->e", {"E": 5}),
    _named("no such column, twice", "d->e, d->e + 1 AS f", {"E": 5, "F": 6}),
    _named("an alias", "a->b AS z", {"Z": 1}),
]

_ALIASES = [
    Case(
        f"an alias {written}",
        f"{_S}CREATE STREAM o AS SELECT k, a AS {written} FROM s;",
        _IN[:1],
        [Out("O", "x", {name: 1}, 1)],
        grouped="names that begin with a digit",
    )
    for written, name in (("1R", "1R"), ("2nd", "2ND"), ("`1r`", "1r"), ("1_a", "1_A"))
]

_YEAR = 1_514_764_800_000  # 2018-01-01
_TIMES = [
    Case(
        f"ROWTIME {condition}",
        f"{_S}CREATE STREAM o AS SELECT k, a FROM s WHERE ROWTIME {condition};",
        [In("s", "x", {"a": 1}, _YEAR - 1), In("s", "x", {"a": 2}, _YEAR), In("s", "x", {"a": 3}, _YEAR + 1)],
        [Out("O", "x", {"A": each}) for each in kept],
        grouped="ROWTIME as text",
    )
    for condition, kept in (
        (">= '2018'", [2, 3]),
        ("< '2018'", [1]),
        ("= '2018'", [2]),
        ("> '2018-01'", [3]),
        ("<= '2018-01-01'", [1, 2]),
        ("BETWEEN '2017' AND '2018'", [1, 2]),
        ("> '2017-12-31T23:59:59.999'", [2, 3]),
    )
]

_WRAPS = "SET 'ksql.persistence.wrap.single.values' = '{}';"
_ONE = "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', partitions=1{});"
_PROPERTIES = [
    Case(
        "a sink is unwrapped",
        _ONE.format("") + _WRAPS.format("false") + "CREATE STREAM o AS SELECT * FROM s;",
        [In("s", 1, {"a": 7}, 5)],
        [Out("O", 1, 7, 5)],
        grouped="properties",
    ),
    Case(
        "a source is unwrapped",
        _WRAPS.format("false")
        + _ONE.format("")
        + "CREATE STREAM o WITH (wrap_single_value=true) AS SELECT * FROM s;",
        [In("s", 1, 7, 5)],
        [Out("O", 1, {"A": 7}, 5)],
        grouped="properties",
    ),
    Case(
        "WITH overrides the property",
        _ONE.format("")
        + _WRAPS.format("false")
        + "CREATE STREAM o WITH (wrap_single_value=true) AS SELECT * FROM s;",
        [In("s", 1, {"a": 7}, 5)],
        [Out("O", 1, {"A": 7}, 5)],
        grouped="properties",
    ),
    Case(
        "two columns stay wrapped",
        _S + _WRAPS.format("false") + "CREATE STREAM o AS SELECT k, a, b FROM s;",
        _IN[:1],
        [Out("O", "x", {"A": 1, "B": "p"}, 1)],
        grouped="properties",
    ),
    Case(
        "DELIMITED has no wrapping",
        _ONE.format("")
        + _WRAPS.format("false")
        + "CREATE STREAM o WITH (value_format='DELIMITED') AS SELECT * FROM s;",
        [In("s", 1, {"a": 7}, 5)],
        [Out("O", 1, "7", 5)],
        grouped="properties",
    ),
    Case(
        "a prefix for topics",
        _S + "SET 'ksql.output.topic.name.prefix' = 'pre-'; CREATE STREAM o AS SELECT k, a FROM s;",
        _IN[:1],
        [Out("pre-O", "x", {"A": 1}, 1)],
        grouped="properties",
    ),
    Case(
        "kafka_topic overrides the prefix",
        _S + "SET 'ksql.output.topic.name.prefix' = 'pre-'; "
        "CREATE STREAM o WITH (kafka_topic='mine') AS SELECT k, a FROM s;",
        _IN[:1],
        [Out("mine", "x", {"A": 1}, 1)],
        grouped="properties",
    ),
]

CASES = [*_GROUPINGS, *_JOINS, *_NAMES, *_ALIASES, *_TIMES, *_PROPERTIES]
