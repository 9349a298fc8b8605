"""Foreign-key table joins: the result has the left table's key, and follows its rows between foreign keys."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sql.cases.case import Case, In, Out, refused

GROUPED = "JOIN of tables by a foreign key"
_L = "CREATE TABLE l (id INT PRIMARY KEY, f STRING, a INT) WITH (kafka_topic='l', partitions=1);"
_R = "CREATE TABLE r (k STRING PRIMARY KEY, b INT) WITH (kafka_topic='r', partitions=1);"


def left(key: int, f: str | None, a: int, ts: int) -> In:
    return In("l", key, {"f": f, "a": a}, ts)


def left_gone(key: int, ts: int) -> In:
    return In("l", key, None, ts)


def right(key: str, b: int | None, ts: int) -> In:
    return In("r", key, None if b is None else {"b": b}, ts)


def o(key: int, row: tuple[int, int | None] | None, ts: int) -> Out:
    return Out("O", key, None if row is None else {"A": row[0], "B": row[1]}, ts)


# fmt: off
_SCENARIOS: list[tuple[str, list[In], list[Out], list[Out]]] = [  # then INNER, LEFT
    ("right, then left", [right("x", 1, 1), left(7, "x", 5, 2)], [o(7, (5, 1), 2)], [o(7, (5, 1), 2)]),
    ("left, then right", [left(7, "x", 5, 1), right("x", 1, 2)], [o(7, (5, 1), 2)],
     [o(7, (5, None), 1), o(7, (5, 1), 2)]),
    ("left alone", [left(7, "x", 5, 1)], [], [o(7, (5, None), 1)]),
    ("right alone", [right("x", 1, 1)], [], []),
    ("one right row for several left ones", [left(7, "x", 5, 1), left(8, "x", 6, 2), right("x", 1, 3)],
     [o(7, (5, 1), 3), o(8, (6, 1), 3)],
     [o(7, (5, None), 1), o(8, (6, None), 2), o(7, (5, 1), 3), o(8, (6, 1), 3)]),
    ("the right row changes", [right("x", 1, 1), left(7, "x", 5, 2), right("x", 2, 3)],
     [o(7, (5, 1), 2), o(7, (5, 2), 3)], [o(7, (5, 1), 2), o(7, (5, 2), 3)]),
    ("the right row is deleted", [right("x", 1, 1), left(7, "x", 5, 2), right("x", None, 3)],
     [o(7, (5, 1), 2), o(7, None, 3)], [o(7, (5, 1), 2), o(7, (5, None), 3)]),
    ("the left row changes", [right("x", 1, 1), left(7, "x", 5, 2), left(7, "x", 6, 3)],
     [o(7, (5, 1), 2), o(7, (6, 1), 3)], [o(7, (5, 1), 2), o(7, (6, 1), 3)]),
    ("the left row changes, then the right one",
     [right("x", 1, 1), left(7, "x", 5, 2), left(7, "x", 6, 3), right("x", 2, 4)],
     [o(7, (5, 1), 2), o(7, (6, 1), 3), o(7, (6, 2), 4)], [o(7, (5, 1), 2), o(7, (6, 1), 3), o(7, (6, 2), 4)]),
    ("the left row is deleted and comes back at the same time",
     [right("x", 1, 1), left(7, "x", 5, 2), left_gone(7, 3), left(7, "x", 6, 3), right("x", 2, 4)],
     [o(7, (5, 1), 2), o(7, None, 3), o(7, (6, 1), 3), o(7, (6, 2), 4)],
     [o(7, (5, 1), 2), o(7, None, 3), o(7, (6, 1), 3), o(7, (6, 2), 4)]),
    ("the left row is deleted", [right("x", 1, 1), left(7, "x", 5, 2), left_gone(7, 3)],
     [o(7, (5, 1), 2), o(7, None, 3)], [o(7, (5, 1), 2), o(7, None, 3)]),
    ("the foreign key changes", [right("x", 1, 1), right("y", 2, 1), left(7, "x", 5, 2), left(7, "y", 5, 3)],
     [o(7, (5, 1), 2), o(7, (5, 2), 3)], [o(7, (5, 1), 2), o(7, (5, 2), 3)]),
    ("the foreign key changes to one without a row", [right("x", 1, 1), left(7, "x", 5, 2), left(7, "y", 5, 3)],
     [o(7, (5, 1), 2), o(7, None, 3)], [o(7, (5, 1), 2), o(7, (5, None), 3)]),
    ("after the foreign key has changed the old one is of no concern",
     [right("x", 1, 1), right("y", 2, 1), left(7, "x", 5, 2), left(7, "y", 5, 3), right("x", 3, 4), right("y", 4, 5)],
     [o(7, (5, 1), 2), o(7, (5, 2), 3), o(7, (5, 4), 5)], [o(7, (5, 1), 2), o(7, (5, 2), 3), o(7, (5, 4), 5)]),
    ("the foreign key changes and changes back",
     [right("x", 1, 1), left(7, "x", 5, 2), left(7, "y", 5, 3), left(7, "x", 6, 4)],
     [o(7, (5, 1), 2), o(7, None, 3), o(7, (6, 1), 4)], [o(7, (5, 1), 2), o(7, (5, None), 3), o(7, (6, 1), 4)]),
    ("the time is the later of both", [right("x", 1, 9), left(7, "x", 5, 2)], [o(7, (5, 1), 9)], [o(7, (5, 1), 9)]),
    ("a left row comes back", [right("x", 1, 1), left(7, "x", 5, 2), left_gone(7, 3), left(7, "x", 6, 4)],
     [o(7, (5, 1), 2), o(7, None, 3), o(7, (6, 1), 4)], [o(7, (5, 1), 2), o(7, None, 3), o(7, (6, 1), 4)]),
    ("a right row comes back", [right("x", 1, 1), left(7, "x", 5, 2), right("x", None, 3), right("x", 2, 4)],
     [o(7, (5, 1), 2), o(7, None, 3), o(7, (5, 2), 4)], [o(7, (5, 1), 2), o(7, (5, None), 3), o(7, (5, 2), 4)]),
    ("a deletion of what never was", [left_gone(7, 1), right("x", None, 2)], [], []),
    ("the foreign key becomes null", [right("x", 1, 1), left(7, "x", 5, 2), left(7, None, 5, 3)],
     [o(7, (5, 1), 2), o(7, None, 3)], [o(7, (5, 1), 2), o(7, (5, None), 3)]),
    ("a foreign key of null", [right("x", 1, 1), left(7, None, 5, 2)], [], [o(7, (5, None), 2)]),
]


def _scenarios() -> Iterator[Case]:
    for name, inputs, inner, kept in _SCENARIOS:
        for kind, outputs in (("INNER", inner), ("LEFT", kept)):
            query = f"CREATE TABLE o AS SELECT l.id AS id, a, b FROM l {kind} JOIN r ON l.f = r.k;"
            telling = (name, kind) == ("the foreign key changes to one without a row", "INNER")
            yield Case(f"{kind}: {name}", _L + _R + query, inputs, outputs, grouped=GROUPED, telling=telling)


_OTHERS = [
    Case("by an expression", f"{_L}{_R}CREATE TABLE o AS SELECT id, a, b FROM l JOIN r ON UCASE(l.f) = r.k;",
         [right("X", 1, 1), left(7, "x", 5, 2)], [o(7, (5, 1), 2)], grouped=GROUPED),
    Case("WHERE", f"{_L}{_R}CREATE TABLE o AS SELECT id, a, b FROM l JOIN r ON l.f = r.k WHERE b > 1;",
         [right("x", 2, 1), left(7, "x", 5, 2), right("x", 1, 3)], [o(7, (5, 2), 2), o(7, None, 3)], grouped=GROUPED),
    Case("SELECT *", f"{_L}{_R}CREATE TABLE o AS SELECT * FROM l JOIN r ON l.f = r.k;",
         [right("x", 1, 1), left(7, "x", 5, 2)],
         [Out("O", 7, {"L_F": "x", "L_A": 5, "R_K": "x", "R_B": 1}, 2)], grouped=GROUPED),
    Case("two partitions", (_L + _R).replace("partitions=1", "partitions=2")
         + "CREATE TABLE o WITH (partitions=1) AS SELECT l.id AS id, a, b FROM l JOIN r ON l.f = r.k;",
         [right("x", 1, 1), right("y", 2, 2), left(7, "x", 5, 3), left(7, "y", 5, 4), left(7, "x", 6, 5)],
         [o(7, (5, 1), 3), o(7, (5, 2), 4), o(7, (6, 1), 5)], grouped=GROUPED),
]

_REFUSED = [
    refused(GROUPED, "RIGHT JOIN", f"{_L}{_R}CREATE TABLE o AS SELECT id, a, b FROM l RIGHT JOIN r ON l.f = r.k;",
            "RIGHT JOIN by a foreign key is not supported"),
    refused(GROUPED, "FULL JOIN", f"{_L}{_R}CREATE TABLE o AS SELECT id, a, b FROM l FULL JOIN r ON l.f = r.k;",
            "FULL JOIN by a foreign key is not supported"),
    refused(GROUPED, "one of several joins",
            f"{_L}{_R}CREATE TABLE z (k INT PRIMARY KEY, c INT) WITH (kafka_topic='z', partitions=1);"
            "CREATE TABLE o AS SELECT * FROM l JOIN z ON l.id = z.k JOIN r ON l.f = r.k;",
            "cannot be one of several joins"),
    refused(GROUPED, "without the key of the left table",
            f"{_L}{_R}CREATE TABLE o AS SELECT f, a, b FROM l JOIN r ON l.f = r.k;", "L.ID"),
]
# fmt: on

CASES = [*_scenarios(), *_OTHERS, *_REFUSED]
