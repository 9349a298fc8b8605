"""Stream-stream joins within a time span, with and without a grace period, like Kafka Streams.

With a grace period, an unmatched record is emitted once no match can arrive any more: when a later record of any key
passes its time, the span and the grace period. Without one, it is emitted immediately, and again with each later match
(KLIP-36 of ksqlDB, KIP-633 and KAFKA-10847 of Kafka).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.sql.cases.case import Case, In, Out, Way, refused

GROUPED = "JOIN of streams"
_L = "CREATE STREAM l (k INT KEY, a INT) WITH (kafka_topic='l', partitions=1);"
_R = "CREATE STREAM r (k INT KEY, b INT) WITH (kafka_topic='r', partitions=1);"
_KEY = {"INNER": "l.k", "LEFT": "l.k", "RIGHT": "r.k", "FULL": "ROWKEY"}
_ONE: tuple[Way, ...] = ("record by record",)

WITHIN = "WITHIN 10 SECONDS GRACE PERIOD 5 SECONDS"


def left(a: int | None, second: int, key: int | None = 1) -> In:
    return In("l", key, None if a is None else {"a": a}, second * 1000)


def right(b: int | None, second: int, key: int | None = 1) -> In:
    return In("r", key, None if b is None else {"b": b}, second * 1000)


def o(a: int | None, b: int | None, second: int, key: int | None = 1) -> Out:
    return Out("O", key, {"A": a, "B": b}, second * 1000)


def _kinds(
    name: str,
    within: str,
    inputs: list[In],
    inner: list[Out],
    left_: list[Out] | None = None,
    right_: list[Out] | None = None,
    full: list[Out] | None = None,
    **more: Any,
) -> Iterator[Case]:
    """Return a case per kind of join. Missing expectations default to INNER JOIN's."""
    for kind, outputs in (("INNER", inner), ("LEFT", left_), ("RIGHT", right_), ("FULL", full)):
        query = (
            f"CREATE STREAM o AS SELECT {_KEY[kind]} AS k, a, b FROM l {kind} JOIN r {within} ON l.k = r.k;"
        )
        wanted = inner if outputs is None else outputs
        yield Case(f"{kind}: {name}", _L + _R + query, inputs, wanted, grouped=GROUPED, **more)


# fmt: off
_WITH_GRACE = [
    *_kinds("left, then right", WITHIN, [left(1, 0), right(2, 5)], [o(1, 2, 5)]),
    *_kinds("right, then left", WITHIN, [right(2, 0), left(1, 5)], [o(1, 2, 5)]),
    *_kinds("at the end of the span", WITHIN, [left(1, 0), right(2, 10)], [o(1, 2, 10)]),
    *_kinds("beyond the span", WITHIN, [left(1, 0), right(2, 11)], []),
    *_kinds("a left record without a match, when its time is over", WITHIN, [left(1, 0), left(9, 16, 9)], [],
            left_=[o(1, None, 0)], full=[o(1, None, 0)]),
    *_kinds("not before its time is over", WITHIN, [left(1, 0), left(9, 15, 9)], []),
    *_kinds("a right record without a match, when its time is over", WITHIN, [right(2, 0), right(9, 16, 9)], [],
            right_=[o(None, 2, 0)], full=[o(None, 2, 0)]),
    *_kinds("a record of the other stream shows that its time is over", WITHIN, [left(1, 0), right(9, 16, 9)], [],
            left_=[o(1, None, 0)], full=[o(1, None, 0)]),
    *_kinds("what has been joined does not come alone", WITHIN, [left(1, 0), right(2, 5), left(9, 40, 9)],
            [o(1, 2, 5)]),
    *_kinds("every left record with every right one", WITHIN, [left(1, 0), left(3, 1), right(2, 5), right(4, 6)],
            [o(1, 2, 5), o(3, 2, 5), o(1, 4, 6), o(3, 4, 6)]),
    *_kinds("other keys", WITHIN, [left(1, 0, 1), right(2, 1, 2)], []),
    *_kinds("several are over at once", WITHIN, [left(1, 0, 1), left(3, 1, 2), right(2, 2, 3), left(9, 30, 9)], [],
            left_=[o(1, None, 0, 1), o(3, None, 1, 2)], right_=[o(None, 2, 2, 3)],
            full=[o(1, None, 0, 1), o(3, None, 1, 2), o(None, 2, 2, 3)]),
    *_kinds("a late record finds what is there", WITHIN, [left(1, 0), left(9, 12, 9), right(2, 5)], [o(1, 2, 5)]),
    *_kinds("a late record that finds nothing comes at once", WITHIN, [left(9, 30, 9), left(1, 5)], [],
            left_=[o(1, None, 5)], full=[o(1, None, 5)]),
    *_kinds("a record later than span and grace together finds nothing", WITHIN,
            [left(1, 0), left(9, 26, 9), right(2, 5)], [], left_=[o(1, None, 0)], right_=[o(None, 2, 5)],
            full=[o(1, None, 0), o(None, 2, 5)], ways=_ONE),
    *_kinds("just in time: what came alone is joined, too", WITHIN, [left(1, 2), left(9, 26, 9), right(2, 5)],
            [o(1, 2, 5)], ways=_ONE, left_=[o(1, None, 2), o(1, 2, 5)], full=[o(1, None, 2), o(1, 2, 5)]),
    *_kinds("both records are late", WITHIN, [left(9, 60, 9), left(1, 30), right(2, 30)], [],
            left_=[o(1, None, 30)], right_=[o(None, 2, 30)], full=[o(1, None, 30), o(None, 2, 30)], ways=_ONE),
    *_kinds("what is older than span and grace together is forgotten", WITHIN,
            [left(1, 0), left(9, 100, 9), right(2, 5)], [], left_=[o(1, None, 0)], right_=[o(None, 2, 5)],
            full=[o(1, None, 0), o(None, 2, 5)], ways=_ONE),
    *_kinds("records without keys are ignored", WITHIN, [left(1, 0, None), right(2, 1, None), left(9, 40, 9)], []),
    *_kinds("records without values are ignored", WITHIN, [left(None, 0), right(2, 1), left(1, 2)], [o(1, 2, 2)]),
    *_kinds("a grace period of nothing", "WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS", [left(1, 0), left(9, 11, 9)], [],
            left_=[o(1, None, 0)], full=[o(1, None, 0)]),
]

_WITHOUT_GRACE = [
    *_kinds("without GRACE: a left record comes at once, and again", "WITHIN 10 SECONDS", [left(1, 0), right(2, 5)],
            [o(1, 2, 5)], left_=[o(1, None, 0), o(1, 2, 5)], full=[o(1, None, 0), o(1, 2, 5)]),
    *_kinds("without GRACE: a right record comes at once, and again", "WITHIN 10 SECONDS", [right(2, 0), left(1, 5)],
            [o(1, 2, 5)], right_=[o(None, 2, 0), o(1, 2, 5)], full=[o(None, 2, 0), o(1, 2, 5)]),
    *_kinds("without GRACE: an hour late", "WITHIN 10 SECONDS", [left(1, 0), left(9, 3600, 9), right(2, 5)],
            [o(1, 2, 5)], left_=[o(1, None, 0), o(9, None, 3600, 9), o(1, 2, 5)],
            full=[o(1, None, 0), o(9, None, 3600, 9), o(1, 2, 5)], ways=_ONE),
]

_SPANS = [
    case
    for name, inputs, outputs in [
        ("before: at its end", [left(1, 10), right(2, 8)], [o(1, 2, 10)]),
        ("before: beyond it", [left(1, 10), right(2, 7)], []),
        ("after: at its end", [left(1, 10), right(2, 18)], [o(1, 2, 18)]),
        ("after: beyond it", [left(1, 10), right(2, 19)], []),
        ("seen from the right", [right(2, 10), left(1, 12)], [o(1, 2, 12)]),
        ("seen from the right, beyond it", [right(2, 10), left(1, 13)], []),
        ("seen from the right, late", [right(2, 10), left(1, 2)], [o(1, 2, 10)]),
    ]
    for case in list(_kinds(f"WITHIN two spans, {name}", "WITHIN (2 SECONDS, 8 SECONDS) GRACE PERIOD 1 HOUR", inputs,
                            outputs))[:2]
] + [
    *_kinds("WITHIN two spans, each record waits for its own", "WITHIN (2 SECONDS, 8 SECONDS) GRACE PERIOD 1 SECOND",
            [left(1, 0, 1), right(2, 0, 2), left(9, 4, 9), left(9, 10, 9)], [], left_=[o(1, None, 0, 1)],
            right_=[o(None, 2, 0, 2)], full=[o(None, 2, 0, 2), o(1, None, 0, 1)]),
    *list(_kinds("WITHIN: units", "WITHIN 1 MINUTE GRACE PERIOD 1 DAY", [left(1, 0), right(2, 60)], [o(1, 2, 60)]))[:1],
]


def _query(name: str, query: str, inputs: list[In], outputs: list[Out], **more: Any) -> Case:
    return Case(name, f"{_L}{_R}CREATE STREAM o AS {query};", inputs, outputs, grouped=GROUPED, **more)


_KEYS = [
    _query("by other columns", f"SELECT a, l.k, b, r.k FROM l JOIN r {WITHIN} ON l.a = r.b",
           [left(5, 0, 1), right(5, 1, 2), right(6, 2, 1)],
           [Out("O", 5, {"L_K": 1, "B": 5, "R_K": 2}, 1000)]),
    _query("by a column that is null", f"SELECT a, l.k, b, r.k FROM l LEFT JOIN r {WITHIN} ON l.a = r.b",
           [In("l", 1, {"a": None}, 0), In("r", 1, {"b": None}, 1)], []),
    _query("by expressions of both the key is ROWKEY",
           f"SELECT ROWKEY AS id, a, b FROM l JOIN r {WITHIN} ON ABS(l.k) = ABS(r.k)",
           [left(5, 0, -1), right(6, 1, 1)], [o(5, 6, 1, 1)]),
    _query("by an expression of the right side", f"SELECT l.k AS k, a, b FROM l JOIN r {WITHIN} ON l.k = ABS(r.k)",
           [left(5, 0, 1), right(6, 1, -1)], [o(5, 6, 1, 1)]),
    _query("LEFT by an expression of the left side",
           f"SELECT r.k AS k, a, b FROM l LEFT JOIN r {WITHIN} ON ABS(l.k) = r.k",
           [left(5, 0, -1), left(9, 16, 9)], [o(5, None, 0, 1)]),
    _query("SELECT * with ROWKEY", f"SELECT * FROM l JOIN r {WITHIN} ON ABS(l.k) = ABS(r.k)",
           [left(5, 0, -1), right(6, 1, 1)], [Out("O", 1, {"L_K": -1, "L_A": 5, "R_K": 1, "R_B": 6}, 1000)]),
    _query("SELECT *", f"SELECT * FROM l JOIN r {WITHIN} ON l.k = r.k", [left(5, 0), right(6, 1)],
           [Out("O", 1, {"L_A": 5, "R_K": 1, "R_B": 6}, 1000)]),
    _query("only the right column in the result", f"SELECT a, r.* FROM l JOIN r {WITHIN} ON l.k = r.k",
           [left(5, 0), right(6, 1)], [Out("O", 1, {"A": 5, "R_B": 6}, 1000)]),
    _query("WHERE", f"SELECT l.k AS k, a, b FROM l JOIN r {WITHIN} ON l.k = r.k WHERE b > 5",
           [left(5, 0), right(6, 1), right(4, 2)], [o(5, 6, 1)]),
    _query("by ROWPARTITION of the left",
           f"SELECT l.ROWPARTITION AS k, a, b FROM l JOIN r {WITHIN} ON l.ROWPARTITION = r.k",
           [left(5, 0, 7), right(6, 1, 0)], [o(5, 6, 1, 0)]),
    _query("by ROWOFFSET of the left",
           f"SELECT l.ROWOFFSET AS k, a, b FROM l JOIN r {WITHIN} ON l.ROWOFFSET = CAST(r.b AS BIGINT)",
           [left(5, 0, 7), left(6, 0, 7), right(1, 1, 0)], [o(6, 1, 1, 1)]),
    _query("PARTITION BY", f"SELECT a, b, l.k FROM l JOIN r {WITHIN} ON l.k = r.k PARTITION BY a",
           [left(5, 0), right(6, 1)], [Out("O", 5, {"B": 6, "L_K": 1}, 1000)]),
]

_WINDOWED = [
    Case("windowed streams, by key and window",
         "CREATE STREAM l (k STRING KEY, a INT) WITH (kafka_topic='l', partitions=1, window_type='TUMBLING', "
         "window_size='1 SECOND');"
         "CREATE STREAM r (k STRING KEY, b INT) WITH (kafka_topic='r', partitions=1, window_type='TUMBLING', "
         "window_size='1 SECOND');"
         f"CREATE STREAM o AS SELECT l.k AS k, a, b FROM l JOIN r {WITHIN} ON l.k = r.k;",
         [In("l", b"x" + (0).to_bytes(8, "big"), {"a": 1}, 0), In("r", b"x" + (1000).to_bytes(8, "big"), {"b": 2}, 10),
          In("r", b"x" + (0).to_bytes(8, "big"), {"b": 3}, 20)],
         [Out("O", "x", {"A": 1, "B": 3}, 20, (0, 1000))], grouped=GROUPED),
    Case("windowed streams and *: the bounds of both are values",
         "CREATE STREAM l (k STRING KEY, a INT) WITH (kafka_topic='l', partitions=1, window_type='SESSION');"
         "CREATE STREAM r (k STRING KEY, b INT) WITH (kafka_topic='r', partitions=1, window_type='SESSION');"
         f"CREATE STREAM o AS SELECT * FROM l JOIN r {WITHIN} ON l.k = r.k;",
         [In("l", b"x" + (9).to_bytes(8, "big") + (5).to_bytes(8, "big"), {"a": 1}, 9),
          In("r", b"x" + (9).to_bytes(8, "big") + (5).to_bytes(8, "big"), {"b": 2}, 9)],
         [Out("O", "x", {"L_WINDOWSTART": 5, "L_WINDOWEND": 9, "L_A": 1, "R_K": "x", "R_WINDOWSTART": 5,
                         "R_WINDOWEND": 9, "R_B": 2}, 9, (5, 9))], grouped=GROUPED),
    Case("columns that are called as the key that a join makes",
         "CREATE STREAM l (rowkey INT KEY, rowkey_1 INT) WITH (kafka_topic='l', partitions=1);"
         "CREATE STREAM r (rowkey_3 INT KEY, b INT) WITH (kafka_topic='r', partitions=1);"
         f"CREATE STREAM o AS SELECT ROWKEY_4, rowkey_1, b FROM l JOIN r {WITHIN} ON ABS(rowkey) = ABS(rowkey_3);",
         [In("l", -1, {"rowkey_1": 2}, 0), In("r", 1, {"b": 3}, 1)],
         [Out("O", 1, {"ROWKEY_1": 2, "B": 3}, 1)], grouped=GROUPED),
]

_REFUSED = [
    refused(GROUPED, "without WITHIN", f"{_L}{_R}CREATE STREAM o AS SELECT * FROM l JOIN r ON l.k = r.k;",
            "Stream-Stream joins must have a WITHIN clause specified. None was provided."),
    refused(GROUPED, "with itself", f"{_L}CREATE STREAM o AS SELECT * FROM l JOIN l AS m {WITHIN} ON l.k = m.k;",
            "Can not join 'L' to 'L': self joins are not yet supported."),
    refused(GROUPED, "CROSS JOIN", f"{_L}{_R}CREATE STREAM o AS SELECT * FROM l CROSS JOIN r ON l.k = r.k;",
            "CROSS JOIN is not supported"),
    refused(GROUPED, "other types", f"{_L}CREATE STREAM r (k BIGINT KEY, b INT) WITH (kafka_topic='r', partitions=1);"
            f"CREATE STREAM o AS SELECT * FROM l JOIN r {WITHIN} ON l.k = r.k;",
            "types don't match. Got L.K{INTEGER} = R.K{BIGINT}"),
    refused(GROUPED, "without the key", f"{_L}{_R}CREATE STREAM o AS SELECT a, b FROM l JOIN r {WITHIN} ON l.k = r.k;",
            "L.K or R.K"),
    refused(GROUPED, "expressions of both, without ROWKEY",
            f"{_L}{_R}CREATE STREAM o AS SELECT l.*, r.* FROM l JOIN r {WITHIN} ON ABS(l.k) = ABS(r.k);", "ROWKEY"),
    refused(GROUPED, "FULL JOIN without ROWKEY",
            f"{_L}{_R}CREATE STREAM o AS SELECT l.*, r.* FROM l FULL JOIN r {WITHIN} ON l.k = r.k;", "ROWKEY"),
    refused(GROUPED, "one of them windowed",
            f"{_R}CREATE STREAM l (k INT KEY, a INT) WITH (kafka_topic='l', partitions=1, window_type='SESSION');"
            f"CREATE STREAM o AS SELECT * FROM l JOIN r {WITHIN} ON l.k = r.k;",
            "Can not join windowed source to non-windowed source. `L` is SESSION windowed"),
    refused(GROUPED, "windows of other sizes",
            "".join(f"CREATE STREAM {name} (k INT KEY, a INT) WITH (kafka_topic='{name}', partitions=1, "
                    f"window_type='TUMBLING', window_size='{size} SECONDS');" for name, size in (("l", 1), ("r", 2)))
            + f"CREATE STREAM o AS SELECT * FROM l JOIN r {WITHIN} ON l.k = r.k;",
            "Implicit repartitioning of windowed sources is not supported."),
    refused(GROUPED, "by a MAP", "".join(
            f"CREATE STREAM {name} (k INT KEY, m MAP<STRING, INT>) WITH (kafka_topic='{name}', partitions=1, "
            "format='JSON');" for name in "lr")
            + f"CREATE STREAM o AS SELECT l.m, r.k FROM l JOIN r {WITHIN} ON l.m = r.m;", "Key column name: `L_M`."),
    refused(GROUPED, "a constant", f"{_L}{_R}CREATE STREAM o AS SELECT * FROM l JOIN r {WITHIN} ON l.k = 0;",
            "Invalid comparison expression '0' in join '(L.K = 0)'."),
    refused(GROUPED, "values in the format KAFKA",
            f"{_L}CREATE STREAM r (k INT KEY, b INT) WITH (kafka_topic='r', partitions=1, value_format='KAFKA');"
            f"CREATE STREAM o AS SELECT * FROM l JOIN r {WITHIN} ON l.k = r.k;",
            "Source(s) R are using the 'KAFKA' value format"),
    refused(GROUPED, "a table of it", f"{_L}{_R}CREATE TABLE o AS SELECT * FROM l JOIN r {WITHIN} ON l.k = r.k;",
            "Your SELECT query produces a STREAM."),
]
# fmt: on

CASES = [*_WITH_GRACE, *_WITHOUT_GRACE, *_SPANS, *_KEYS, *_WINDOWED, *_REFUSED]
