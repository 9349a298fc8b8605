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

_Z = "CREATE TABLE z (id INT PRIMARY KEY, g STRING, c INT) WITH (kafka_topic='z', partitions=1);"
_V = "CREATE TABLE v (k STRING PRIMARY KEY, d INT) WITH (kafka_topic='v', partitions=1);"


def z(key: int, c: int | None, ts: int, g: str | None = None) -> In:
    return In("z", key, None if c is None else {"c": c, "g": g}, ts)


def v(key: str, d: int | None, ts: int) -> In:
    return In("v", key, None if d is None else {"d": d}, ts)


def oz(key: int, row: tuple[int | None, ...] | None, ts: int, names: str = "ABC") -> Out:
    return Out("O", key, None if row is None else dict(zip(names, row, strict=True)), ts)


def _several() -> Iterator[Case]:
    query = _L + _R + _Z + "CREATE TABLE o AS SELECT l.id AS id, a, b, c FROM l "
    by_foreign_key, by_key = "{0} JOIN r ON l.f = r.k ", "{0} JOIN z ON l.id = z.id "
    always = [z(7, 3, 1), right("x", 1, 2), left(7, "x", 5, 3)]
    joined = oz(7, (5, 1, 3), 3)
    scenarios: list[tuple[str, list[In], list[Out], list[Out]]] = [
        ("all three", always, [joined], [joined]),
        ("the right row changes", [*always, right("x", 2, 4)], [joined, oz(7, (5, 2, 3), 4)],
         [joined, oz(7, (5, 2, 3), 4)]),
        ("the third row changes", [*always, z(7, 4, 4)], [joined, oz(7, (5, 1, 4), 4)],
         [joined, oz(7, (5, 1, 4), 4)]),
        ("another foreign key", [right("y", 2, 0), *always, left(7, "y", 6, 5)], [joined, oz(7, (6, 2, 3), 5)],
         [joined, oz(7, (6, 2, 3), 5)]),
        ("the left row goes", [*always, left_gone(7, 4)], [joined, oz(7, None, 4)], [joined, oz(7, None, 4)]),
        ("without the others", [left(7, "x", 5, 3)], [], [oz(7, (5, None, None), 3)]),
    ]
    for place, joins in (("first", by_foreign_key + by_key), ("last", by_key + by_foreign_key)):
        for name, inputs, inner, outer in scenarios:
            for kind, outputs in (("INNER", inner), ("LEFT", outer)):
                statements = f"{query}{joins.format(kind)};"
                yield Case(f"{place} of two joins, {kind}: {name}", statements, inputs, outputs, grouped=GROUPED)
    two = _L + _R + _V + "CREATE TABLE o AS SELECT l.id AS id, a, b, d FROM l JOIN r ON l.f = r.k "
    for kind, more, gone in (
        ("INNER", [], oz(7, None, 5)),
        ("LEFT", [oz(7, (5, 1, None), 2, "ABD")], oz(7, (5, 1, None), 5, "ABD")),
    ):
        yield Case(
            f"two foreign keys, {kind}",
            f"{two}{kind} JOIN v ON l.f = v.k;",
            [right("x", 1, 1), left(7, "x", 5, 2), v("x", 9, 3), v("x", 8, 4), v("x", None, 5)],
            [*more, oz(7, (5, 1, 9), 3, "ABD"), oz(7, (5, 1, 8), 4, "ABD"), gone],
            grouped=GROUPED,
        )


_REFUSED = [
    refused(GROUPED, "RIGHT JOIN", f"{_L}{_R}CREATE TABLE o AS SELECT id, a, b FROM l RIGHT JOIN r ON l.f = r.k;",
            "RIGHT JOIN by a foreign key is not supported"),
    refused(GROUPED, "FULL JOIN", f"{_L}{_R}CREATE TABLE o AS SELECT id, a, b FROM l FULL JOIN r ON l.f = r.k;",
            "FULL JOIN by a foreign key is not supported"),
    refused(GROUPED, "after a FULL JOIN",
            f"{_L}{_R}{_Z}CREATE TABLE o AS SELECT * FROM l FULL JOIN z ON l.id = z.id JOIN r ON l.f = r.k;",
            "A JOIN by a foreign key after a RIGHT or FULL JOIN is not supported"),
    refused(GROUPED, "without the key of the left table",
            f"{_L}{_R}CREATE TABLE o AS SELECT f, a, b FROM l JOIN r ON l.f = r.k;", "L.ID"),
]
# fmt: on

CASES = [*_scenarios(), *_OTHERS, *_several(), *_REFUSED]
