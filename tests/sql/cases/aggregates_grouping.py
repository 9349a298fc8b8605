"""GROUP BY expressions, HAVING, and columns beside aggregates."""

from __future__ import annotations

from typing import Any

from tests.sql.cases.case import Case, In, Out, refused

_S = (
    "CREATE STREAM s (k STRING KEY, a INT, b INT, c STRING, m MAP<STRING, STRING>, d STRUCT<e INT, f STRING>) "
    "WITH (kafka_topic='s', partitions=1);"
)
GROUPED, HAVING = "GROUP BY", "HAVING"


def _case(
    grouped: str,
    name: str,
    select: str,
    values: list[dict[str, Any]],
    rows: list[tuple[Any, Any]],
    properties: str = "",
) -> Case:
    return Case(
        name,
        f"{_S}CREATE TABLE o {properties} AS {select};",
        [In("s", f"k{number}", value, 10 + number) for number, value in enumerate(values)],
        [Out("O", key, value) for key, value in rows],
        grouped=grouped,
    )


GROUPS = [
    _case(GROUPED, "a column of the value", "SELECT c, COUNT(*) AS n FROM s GROUP BY c",
          [{"c": "p"}, {"c": "q"}, {"c": "p"}], [("p", {"N": 1}), ("q", {"N": 1}), ("p", {"N": 2})]),
    _case(GROUPED, "a column that is INT", "SELECT a, COUNT(*) AS n FROM s GROUP BY a", [{"a": 1}, {"a": 1}],
          [(1, {"N": 1}), (1, {"N": 2})]),
    _case(GROUPED, "a column with another name", "SELECT c AS group_name, COUNT(*) AS n FROM s GROUP BY c",
          [{"c": "p"}],
          [("p", {"N": 1})]),
    _case(GROUPED, "an expression", "SELECT LEN(c) AS l, COUNT(*) AS n FROM s GROUP BY LEN(c)",
          [{"c": "22"}, {"c": "333"}, {"c": "-2"}], [(2, {"N": 1}), (3, {"N": 1}), (2, {"N": 2})]),
    _case(GROUPED, "arithmetic, and the same as a value",
          "SELECT a + b AS g, AS_VALUE(a + b) AS v, COUNT(*) AS n FROM s GROUP BY a + b",
          [{"a": 1, "b": 1}, {"a": 0, "b": 2}], [(2, {"V": 2, "N": 1}), (2, {"V": 2, "N": 2})]),
    _case(GROUPED, "a function of the group", "SELECT c, LEN(c) AS l, COUNT(*) AS n FROM s GROUP BY c", [{"c": "abc"}],
          [("abc", {"L": 3, "N": 1})]),
    _case(GROUPED, "an element of a map; null is no group", "SELECT m['x'] AS g, COUNT(*) AS n FROM s GROUP BY m['x']",
          [{"m": {"x": "p"}}, {"m": {"y": "q"}}, {"m": None}, {"m": {"x": "p"}}], [("p", {"N": 1}), ("p", {"N": 2})]),
    _case(GROUPED, "a field of a struct", "SELECT d->f, COUNT(*) AS n FROM s GROUP BY d->f",
          [{"d": {"f": "p"}}, {"d": None}, {"d": {"f": "p"}}], [("p", {"N": 1}), ("p", {"N": 2})]),
    _case(GROUPED, "several columns", "SELECT c, a, COUNT(*) AS n FROM s GROUP BY c, a",
          [{"c": "p", "a": 1}, {"c": "p", "a": 2}, {"c": "p", "a": 1}],
          [({"C": "p", "A": 1}, {"N": 1}), ({"C": "p", "A": 2}, {"N": 1}), ({"C": "p", "A": 1}, {"N": 2})],
          "WITH (key_format='JSON')"),
    _case(GROUPED, "several, one of them null", "SELECT c, a, COUNT(*) AS n FROM s GROUP BY c, a",
          [{"c": "p", "a": None}, {"c": "p", "a": 2}], [({"C": "p", "A": 2}, {"N": 1})], "WITH (key_format='JSON')"),
    _case(GROUPED, "several expressions",
          "SELECT UCASE(c) AS u, a % 2 AS o, SUM(b) AS t FROM s GROUP BY UCASE(c), a % 2",
          [{"c": "p", "a": 1, "b": 5}, {"c": "P", "a": 3, "b": 6}],
          [({"U": "P", "O": 1}, {"T": 5}), ({"U": "P", "O": 1}, {"T": 11})], "WITH (key_format='JSON')"),
    _case(GROUPED, "WHERE before it", "SELECT c, COUNT(*) AS n FROM s WHERE a > 1 GROUP BY c",
          [{"c": "p", "a": 1}, {"c": "p", "a": 2}], [("p", {"N": 1})]),
    _case(GROUPED, "expressions of aggregates",
          "SELECT c, SUM(a) / COUNT(*) AS q, MAX(a) - MIN(a) AS r FROM s GROUP BY c",
          [{"c": "p", "a": 10}, {"c": "p", "a": 4}], [("p", {"Q": 10, "R": 0}), ("p", {"Q": 7, "R": 6})]),
    _case(GROUPED, "CASE over an aggregate",
          "SELECT c, CASE WHEN COUNT(*) > 1 THEN 'many' ELSE 'one' END AS w FROM s GROUP BY c",
          [{"c": "p"}, {"c": "p"}], [("p", {"W": "one"}), ("p", {"W": "many"})]),
    _case(GROUPED, "an aggregate of CASE", "SELECT c, SUM(CASE WHEN a > 1 THEN 1 ELSE 0 END) AS n FROM s GROUP BY c",
          [{"c": "p", "a": 1}, {"c": "p", "a": 2}], [("p", {"N": 0}), ("p", {"N": 1})]),
    Case("a record without a value is no record",
         f"{_S}CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
         [In("s", "x", {"a": 1}), In("s", "x", None), In("s", "x", {"a": 1})],
         [Out("O", "x", {"N": 1}), Out("O", "x", {"N": 2})], grouped=GROUPED),
    Case("a record without a key is in no group",
         f"{_S}CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
         [In("s", None, {"a": 1}), In("s", "x", {"a": 1})], [Out("O", "x", {"N": 1})], grouped=GROUPED),
    Case("the time of a group is its latest",
         f"{_S}CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
         [In("s", "x", {"a": 1}, 50), In("s", "x", {"a": 1}, 20)],
         [Out("O", "x", {"N": 1}, 50), Out("O", "x", {"N": 2}, 50)], grouped=GROUPED),
    Case("a time in JSON that no calendar has",
         "CREATE STREAM s (k STRING KEY, t TIMESTAMP) WITH (kafka_topic='s', partitions=1);"
         "CREATE TABLE o AS SELECT k, COUNT(t) AS n FROM s GROUP BY k;",
         [In("s", "x", b'{"t": 9223372036854775807}'), In("s", "x", {"t": 1})],
         [Out("O", "x", {"N": 0}), Out("O", "x", {"N": 1})],
         grouped=GROUPED, different="it is null, where ksqlDB has a TIMESTAMP for every BIGINT"),
]  # fmt: skip

HAVINGS = [
    _case(HAVING, "an aggregate that is not selected", "SELECT c, LEN(c) AS l FROM s GROUP BY c HAVING COUNT(c) = 2",
          [{"c": "bob"}, {"c": "bob"}, {"c": "bob"}], [("bob", {"L": 3}), ("bob", None)]),
    _case(HAVING, "what it never took is not deleted", "SELECT c, COUNT(*) AS n FROM s GROUP BY c HAVING COUNT(*) > 1",
          [{"c": "p"}, {"c": "q"}, {"c": "p"}], [("p", {"N": 2})]),
    _case(HAVING, "a quotient", "SELECT c, SUM(a) / COUNT(*) AS q FROM s GROUP BY c HAVING SUM(a) / COUNT(*) > 25",
          [{"c": "p", "a": 50}, {"c": "p", "a": 10}, {"c": "p", "a": 15}, {"c": "q", "a": 100}],
          [("p", {"Q": 50}), ("p", {"Q": 30}), ("p", None), ("q", {"Q": 100})]),
    _case(HAVING, "the group itself", "SELECT c, COUNT(*) AS n FROM s GROUP BY c HAVING c = 'p'",
          [{"c": "p"}, {"c": "q"}],
          [("p", {"N": 1})]),
    _case(HAVING, "a function of the group",
          "SELECT TRIM(c) AS g, COUNT(*) AS n FROM s GROUP BY TRIM(c) HAVING SUBSTRING(TRIM(c), 1, 1) = 'p'",
          [{"c": "  pq"}, {"c": "q"}, {"c": "pq "}], [("pq", {"N": 1}), ("pq", {"N": 2})]),
    _case(HAVING, "back and forth", "SELECT c, SUM(a) AS t FROM s GROUP BY c HAVING SUM(a) > 0",
          [{"c": "p", "a": 1}, {"c": "p", "a": -1}, {"c": "p", "a": -1}, {"c": "p", "a": 5}],
          [("p", {"T": 1}), ("p", None), ("p", {"T": 4})]),
    _case(HAVING, "of null is not taken", "SELECT c, MAX(a) AS m FROM s GROUP BY c HAVING MAX(a) > 0",
          [{"c": "p", "a": None}, {"c": "p", "a": 1}], [("p", {"M": 1})]),
]  # fmt: skip

REFUSED = [
    refused(GROUPED, "a column that is not a group", f"{_S}CREATE TABLE o AS SELECT c, a, COUNT(*) FROM s GROUP BY c;",
            "not part of GROUP BY"),
    refused(GROUPED, "the key is not selected", f"{_S}CREATE TABLE o AS SELECT COUNT(*) AS n FROM s GROUP BY c;",
             "key"),
    refused(GROUPED, "nested aggregates", f"{_S}CREATE TABLE o AS SELECT c, SUM(COUNT(a)) FROM s GROUP BY c;",
            "can not be nested"),
    refused(GROUPED, "the result is no stream", f"{_S}CREATE STREAM o AS SELECT c, COUNT(*) FROM s GROUP BY c;",
            "CREATE TABLE"),
    refused(HAVING, "without GROUP BY", f"{_S}CREATE STREAM o AS SELECT k, a FROM s HAVING a > 1;", "HAVING"),
    refused(GROUPED, "an aggregate in WHERE",
             f"{_S}CREATE TABLE o AS SELECT c, COUNT(*) FROM s WHERE COUNT(*) > 1 GROUP BY c;",
            "WHERE"),
]  # fmt: skip

CASES: list[Case] = [*GROUPS, *HAVINGS, *REFUSED]
