"""Stream-table joins: a record finds the current row when it arrives. Follows ksqlDB's page on joins."""

from __future__ import annotations

from typing import Any

from tests.sql.cases.case import Case, In, Out, Way, refused

GROUPED = "JOIN of a stream with a table"

_S = "CREATE STREAM s (k STRING KEY, x INT, w STRING) WITH (kafka_topic='s', partitions=1);"
_T = "CREATE TABLE t (k STRING PRIMARY KEY, y INT) WITH (kafka_topic='t', partitions=1);"
_ONE: tuple[Way, ...] = ("record by record",)
_ALL: tuple[Way, ...] = ("all at once",)
_INNER, _LEFT = "JOIN t ON s.k = t.k", "LEFT JOIN t ON s.k = t.k"


def s(key: str | None, x: int | None, ts: int, w: str | None = None) -> In:
    return In("s", key, {"x": x, "w": w}, ts)


def t(key: str | None, y: int | None, ts: int) -> In:
    return In("t", key, {"y": y}, ts)


def gone(key: str, ts: int) -> In:
    return In("t", key, None, ts)


def o(key: Any, x: int | None, y: int | None, ts: int) -> Out:
    return Out("O", key, {"X": x, "Y": y}, ts)


def _case(name: str, join: str, inputs: list[In], outputs: list[Out], **more: Any) -> Case:
    return Case(
        name,
        f"{_S}{_T}CREATE STREAM o AS SELECT s.k AS k, x, y FROM s {join};",
        inputs,
        outputs,
        grouped=GROUPED,
        **more,
    )


def _query(name: str, query: str, inputs: list[In], outputs: list[Out], **more: Any) -> Case:
    return Case(name, f"{_S}{_T}{query}", inputs, outputs, grouped=GROUPED, **more)


# fmt: off
_MATCHES = [
    _case("INNER: the row is there", _INNER, [t("a", 1, 10), s("a", 5, 20)], [o("a", 5, 1, 20)], telling=True),
    _case("LEFT: the row is there", _LEFT, [t("a", 1, 10), s("a", 5, 20)], [o("a", 5, 1, 20)]),
    _case("INNER: there is no row", _INNER, [s("a", 5, 20)], []),
    _case("LEFT: there is no row", _LEFT, [s("a", 5, 20)], [o("a", 5, None, 20)]),
    _case("INNER: the row comes later, which makes no result", _INNER, [s("a", 5, 10), t("a", 1, 20)], []),
    _case("LEFT: the row comes later, which makes no result", _LEFT, [s("a", 5, 10), t("a", 1, 20)],
          [o("a", 5, None, 10)]),
    _case("INNER: each record finds the row as it is then", _INNER,
          [t("a", 1, 10), s("a", 5, 20), t("a", 2, 30), s("a", 6, 40)], [o("a", 5, 1, 20), o("a", 6, 2, 40)]),
    _case("LEFT: before the row, with it, after its change", _LEFT,
          [s("a", 4, 5), t("a", 1, 10), s("a", 5, 20), t("a", 2, 30), s("a", 6, 40)],
          [o("a", 4, None, 5), o("a", 5, 1, 20), o("a", 6, 2, 40)]),
    _case("INNER: a deleted row is not found", _INNER,
          [t("a", 1, 10), s("a", 5, 20), gone("a", 30), s("a", 6, 40)], [o("a", 5, 1, 20)]),
    _case("LEFT: a deleted row is not found", _LEFT,
          [t("a", 1, 10), s("a", 5, 20), gone("a", 30), s("a", 6, 40)], [o("a", 5, 1, 20), o("a", 6, None, 40)]),
    _case("a row that comes back is found", _INNER, [t("a", 1, 10), gone("a", 20), t("a", 3, 30), s("a", 6, 40)],
          [o("a", 6, 3, 40)]),
    _case("a deletion of nothing", _LEFT, [gone("a", 10), s("a", 5, 20)], [o("a", 5, None, 20)]),
    _case("several keys", _INNER, [t("a", 1, 10), t("b", 2, 10), s("b", 5, 20), s("c", 6, 30), s("a", 7, 40)],
          [o("b", 5, 2, 20), o("a", 7, 1, 40)]),
    _case("several records of one key", _INNER, [t("a", 1, 10), s("a", 5, 20), s("a", 6, 21), s("a", 7, 22)],
          [o("a", 5, 1, 20), o("a", 6, 1, 21), o("a", 7, 1, 22)]),
    _case("a column of the row is null", _INNER, [t("a", None, 10), s("a", 5, 20)], [o("a", 5, None, 20)]),
    _case("INNER: a record without a key is ignored", _INNER, [t("a", 1, 10), s(None, 5, 20)], []),
    _case("LEFT: a record without a key is ignored", _LEFT, [t("a", 1, 10), s(None, 5, 20), s("a", 6, 30)],
          [o("a", 6, 1, 30)]),
    _case("a record without a value is ignored", _LEFT, [t("a", 1, 10), In("s", "a", None, 20), s("a", 6, 30)],
          [o("a", 6, 1, 30)]),
    _case("a record that is no JSON is left out", _LEFT, [In("s", "a", b"{", 20), s("a", 6, 30)],
          [o("a", 6, None, 30)]),
    _case("the time is that of the record, also if the row is later", _INNER, [t("a", 1, 50), s("a", 5, 20)],
          [o("a", 5, 1, 20)], ways=_ONE),
    _case("a row that is later by its time is not seen, where both wait", _LEFT, [t("a", 1, 50), s("a", 5, 20)],
          [o("a", 5, None, 20)], ways=_ALL),
    _case("at the same time the row goes first, where both wait", _INNER, [s("a", 5, 20), t("a", 1, 20)],
          [o("a", 5, 1, 20)], ways=_ALL),
    _case("in the order of times, where both wait", _INNER,
          [s("a", 5, 20), s("a", 6, 40), t("a", 1, 10), t("a", 2, 30)], [o("a", 5, 1, 20), o("a", 6, 2, 40)],
          ways=_ALL),
    _case("a record behind a later one waits for it", _INNER,
          [s("a", 5, 40), s("a", 6, 10), t("a", 1, 20)], [o("a", 5, 1, 40), o("a", 6, 1, 10)], ways=_ALL),
]

_KEYS = [
    _query("by a column of the stream", "CREATE STREAM o AS SELECT w, x, y FROM s JOIN t ON s.w = t.k;",
           [t("a", 1, 10), s("z", 5, 20, "a"), s("a", 6, 30, "z")], [o("a", 5, 1, 20)]),
    _query("LEFT by a column of the stream", "CREATE STREAM o AS SELECT w, x, y FROM s LEFT JOIN t ON s.w = t.k;",
           [t("a", 1, 10), s("z", 5, 20, "a"), s("a", 6, 30, "z")], [o("a", 5, 1, 20), o("z", 6, None, 30)]),
    _query("a column that is null makes no result",
           "CREATE STREAM o AS SELECT w, x, y FROM s LEFT JOIN t ON s.w = t.k;",
           [s("z", 5, 20, None), s("z", 6, 30, "b")], [o("b", 6, None, 30)]),
    _query("by an expression: the key has the name of the table's column",
           "CREATE STREAM o AS SELECT t.k, x, y FROM s JOIN t ON UCASE(s.w) = t.k;",
           [t("A", 1, 10), s("z", 5, 20, "a")], [o("A", 5, 1, 20)]),
    _query("LEFT by an expression: the key is there without a row",
           "CREATE STREAM o AS SELECT t.k, x, y FROM s LEFT JOIN t ON UCASE(s.w) = t.k;",
           [s("z", 5, 20, "a")], [o("A", 5, None, 20)]),
    _query("the sides of ON may change places", "CREATE STREAM o AS SELECT t.k AS k, x, y FROM s JOIN t ON t.k = s.k;",
           [t("a", 1, 10), s("a", 5, 20)], [o("a", 5, 1, 20)]),
    _query("both columns in the result: the left one is the key",
           "CREATE STREAM o AS SELECT t.k AS tk, s.k AS sk, x, y FROM s JOIN t ON s.k = t.k;",
           [t("a", 1, 10), s("a", 5, 20)], [Out("O", "a", {"TK": "a", "X": 5, "Y": 1}, 20)]),
    _query("PARTITION BY", "CREATE STREAM o AS SELECT y, s.k AS k, x FROM s JOIN t ON s.k = t.k PARTITION BY y;",
           [t("a", 1, 10), s("a", 5, 20)], [Out("O", 1, {"K": "a", "X": 5}, 20)]),
    _query("SELECT *", "CREATE STREAM o AS SELECT * FROM s JOIN t ON s.k = t.k;", [t("a", 1, 10), s("a", 5, 20)],
           [Out("O", "a", {"S_X": 5, "S_W": None, "T_K": "a", "T_Y": 1}, 20)]),
    _query("SELECT * of one source", "CREATE STREAM o AS SELECT s.*, y FROM s JOIN t ON s.k = t.k;",
           [t("a", 1, 10), s("a", 5, 20)], [Out("O", "a", {"S_X": 5, "S_W": None, "Y": 1}, 20)]),
    _query("aliases", "CREATE STREAM o AS SELECT a.k AS k, a.x AS x, b.y AS y FROM s AS a JOIN t AS b ON a.k = b.k;",
           [t("a", 1, 10), s("a", 5, 20)], [o("a", 5, 1, 20)]),
]

_CLAUSES = [
    _query("WHERE", "CREATE STREAM o AS SELECT s.k AS k, x, y FROM s JOIN t ON s.k = t.k WHERE x > y;",
           [t("a", 5, 10), s("a", 5, 20), s("a", 6, 30)], [o("a", 6, 5, 30)]),
    _query("WHERE nothing was found", "CREATE STREAM o AS SELECT s.k AS k, x, y FROM s LEFT JOIN t ON s.k = t.k "
           "WHERE t.k IS NULL;", [t("a", 5, 10), s("a", 5, 20), s("b", 6, 30)], [o("b", 6, None, 30)]),
    _query("expressions of both", "CREATE STREAM o AS SELECT s.k AS k, x + y AS x, IFNULL(y, 0) * 2 AS y FROM s "
           "LEFT JOIN t ON s.k = t.k;", [t("a", 5, 10), s("a", 1, 20), s("b", 6, 30)],
           [o("a", 6, 10, 20), o("b", None, 0, 30)]),
    _query("the times of both", "CREATE STREAM o AS SELECT s.k AS k, s.ROWTIME AS x, t.ROWTIME AS y FROM s "
           "JOIN t ON s.k = t.k;", [t("a", 5, 10), s("a", 1, 20)], [o("a", 20, 10, 20)]),
    _query("INSERT INTO", "CREATE STREAM o (k STRING KEY, x INT, y INT) WITH (kafka_topic='O', partitions=1);"
           "INSERT INTO o SELECT s.k AS k, x, y FROM s JOIN t ON s.k = t.k;",
           [t("a", 5, 10), s("a", 1, 20)], [o("a", 1, 5, 20)]),
    _query("a table that a query made", "CREATE TABLE c AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
           "CREATE STREAM p (k STRING KEY, x INT) WITH (kafka_topic='p', partitions=1);"
           "CREATE STREAM o AS SELECT p.k AS k, p.x AS x, c.n AS y FROM p JOIN c ON p.k = c.k;",
           [s("a", 1, 10), s("a", 1, 20), In("p", "a", {"x": 7}, 30)], [o("a", 7, 2, 30)], ways=_ONE),
    _query("a stream that a join made", "CREATE STREAM i AS SELECT s.k AS k, x, y FROM s JOIN t ON s.k = t.k;"
           "CREATE STREAM o AS SELECT k, x, y FROM i WHERE y > 1;",
           [t("a", 1, 10), s("a", 5, 20), t("a", 2, 30), s("a", 6, 40)], [o("a", 6, 2, 40)]),
    _query("EXPLODE", "CREATE STREAM o AS SELECT s.k AS k, EXPLODE(ARRAY[x, y]) AS e FROM s JOIN t ON s.k = t.k;",
           [t("a", 1, 10), s("a", 5, 20)], [Out("O", "a", {"E": 5}, 20), Out("O", "a", {"E": 1}, 20)]),
    Case("columns of all types are kept",
         "CREATE STREAM s (k BIGINT KEY, x INT) WITH (kafka_topic='s', partitions=1);"
         "CREATE TABLE t (k BIGINT PRIMARY KEY, b BOOLEAN, d DOUBLE, n DECIMAL(6, 2), y BYTES, at TIMESTAMP, day DATE, "
         "a ARRAY<STRING>, m MAP<STRING, INT>, st STRUCT<u INT, v STRUCT<w STRING>>) "
         "WITH (kafka_topic='t', partitions=1);"
         "CREATE STREAM o AS SELECT s.k AS k, b, d, n, y, at, day, a, m, st FROM s JOIN t ON s.k = t.k;",
         [In("t", 1, {"b": True, "d": 1.5, "n": 12.34, "y": "aGk=", "at": 1000, "day": 3, "a": ["p", None],
                      "m": {"q": 1}, "st": {"u": 1, "v": {"w": "z"}}}, 10), In("s", 1, {"x": 1}, 20)],
         [Out("O", 1, {"B": True, "D": 1.5, "N": 12.34, "Y": "aGk=", "AT": 1000, "DAY": 3, "A": ["p", None],
                       "M": {"q": 1}, "ST": {"U": 1, "V": {"W": "z"}}}, 20)], grouped=GROUPED),
    Case("keys of a struct", "CREATE STREAM s (k STRUCT<a INT, b STRING> KEY, x INT) "
         "WITH (kafka_topic='s', key_format='JSON', partitions=1);"
         "CREATE TABLE t (k STRUCT<a INT, b STRING> PRIMARY KEY, y INT) "
         "WITH (kafka_topic='t', key_format='JSON', partitions=1);"
         "CREATE STREAM o AS SELECT s.k AS k, x, y FROM s JOIN t ON s.k = t.k;",
         [In("t", {"A": 1, "B": "p"}, {"y": 1}, 10), In("s", {"A": 1, "B": "p"}, {"x": 2}, 20),
          In("s", {"A": 1, "B": "q"}, {"x": 3}, 30)], [o({"A": 1, "B": "p"}, 2, 1, 20)], grouped=GROUPED),
]

_REFUSED = [
    refused(GROUPED, "RIGHT JOIN", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s RIGHT JOIN t ON s.k = t.k;",
            "right-outer join not supported for stream-table join. Got S RIGHT [OUTER] JOIN T."),
    refused(GROUPED, "FULL JOIN", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s FULL OUTER JOIN t ON s.k = t.k;",
            "full-outer join not supported for stream-table join. Got S [FULL] OUTER JOIN T."),
    refused(GROUPED, "WITHIN", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s JOIN t WITHIN 1 HOUR ON s.k = t.k;",
            "A window definition was provided for a Stream-Table join"),
    refused(GROUPED, "the table first", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM t JOIN s ON s.k = t.k;",
            "only stream-table joins. Got T [INNER] JOIN S. Name the stream first."),
    refused(GROUPED, "not by the key of the table",
            f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s JOIN t ON s.x = t.y;", "primary key. Got S.X = T.Y."),
    refused(GROUPED, "an expression of the key of the table",
            f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s JOIN t ON s.k = UCASE(t.k);",
            "primary key. Got S.K = UCASE(T.K)."),
    refused(GROUPED, "other types", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s JOIN t ON s.x = t.k;",
            "types don't match. Got S.X{INTEGER} = T.K{STRING}"),
    refused(GROUPED, "without the key in the result",
            f"{_S}{_T}CREATE STREAM o AS SELECT x, y FROM s JOIN t ON s.k = t.k;",
            "S.K or T.K"),
    refused(GROUPED, "other numbers of partitions",
            f"{_S}{_T.replace('partitions=1', 'partitions=2')}CREATE STREAM o AS SELECT s.k, x, y FROM s {_INNER};",
            "`S` partitions = 1; `T` partitions = 2"),
    refused(GROUPED, "no equality", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s JOIN t ON s.k > t.k;",
            "Only equality join criteria is supported"),
    refused(GROUPED, "two equalities", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s JOIN t ON s.k = t.k AND s.x = t.y;",
            "multiple conditions are not yet supported. Got ((S.K = T.K) AND (S.X = T.Y))"),
    refused(GROUPED, "one side only", f"{_S}{_T}CREATE STREAM o AS SELECT * FROM s JOIN t ON s.k = s.w;",
            "not the same source. Left side references `S` and right references `S`"),
]
# fmt: on

CASES = [*_MATCHES, *_KEYS, *_CLAUSES, *_REFUSED]
