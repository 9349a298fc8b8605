"""Session windows: they grow and merge, and replaced sessions are deleted."""

from __future__ import annotations

from typing import Any

from tests.sql.cases.case import Case, In, Out

_S = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', partitions=1);"
GROUPED = "WINDOW SESSION"
_TEN = "SESSION (10 MILLISECONDS)"
_GRACE = "SESSION (10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)"


def _case(
    name: str,
    records: list[tuple[str, int, int | None]],
    rows: list[tuple[str, Any, tuple[int, int]]],
    *,
    window: str = _TEN,
    select: str = "COUNT(*) AS r",
    rest: str = "",
    telling: bool = False,
) -> Case:
    """Return a case. Records are (key, time, value); rows are (key, result, window) with the session's end as time."""
    return Case(
        name,
        f"{_S}CREATE TABLE o AS SELECT k, {select} FROM s WINDOW {window} GROUP BY k {rest};",
        [In("s", key, {"v": value}, time) for key, time, value in records],
        [
            Out(
                "O",
                key,
                result if result is None or isinstance(result, dict) else {"R": result},
                bounds[1],
                bounds,
            )
            for key, result, bounds in rows
        ],
        grouped=GROUPED,
        telling=telling,
    )


_MERGING: list[tuple[str, int, int | None]] = [("a", 0, 1), ("a", 20, 2), ("a", 10, 3)]
_GONE: list[tuple[str, Any, tuple[int, int]]] = [("a", None, (0, 0)), ("a", None, (20, 20))]


def _merged(name: str, select: str, first: Any, second: Any, both: Any) -> Case:
    """Return a case with two one-record sessions, 1 and 2, joined by a third record, 3."""
    rows = [("a", first, (0, 0)), ("a", second, (20, 20)), *_GONE, ("a", both, (0, 20))]
    return _case(f"{name} of sessions that merge", _MERGING, rows, select=f"{select} AS r")


CASES: list[Case] = [
    _case("one record", [("a", 5, 1)], [("a", 1, (5, 5))]),
    _case("a session grows", [("a", 0, 1), ("a", 7, 1)], [("a", 1, (0, 0)), ("a", None, (0, 0)), ("a", 2, (0, 7))],
          telling=True),
    _case("the gap itself is within", [("a", 0, 1), ("a", 10, 1)],
          [("a", 1, (0, 0)), ("a", None, (0, 0)), ("a", 2, (0, 10))]),
    _case("more than the gap is another session", [("a", 0, 1), ("a", 11, 1)], [("a", 1, (0, 0)), ("a", 1, (11, 11))]),
    _case("keys have sessions of their own", [("a", 0, 1), ("b", 5, 1), ("a", 20, 1)],
          [("a", 1, (0, 0)), ("b", 1, (5, 5)), ("a", 1, (20, 20))]),
    _case("two records at the same time", [("a", 5, 1), ("a", 5, 1)], [("a", 1, (5, 5)), ("a", 2, (5, 5))]),
    _case("a record within a session deletes nothing", [("a", 0, 1), ("a", 8, 1), ("a", 4, 1)],
          [("a", 1, (0, 0)), ("a", None, (0, 0)), ("a", 2, (0, 8)), ("a", 3, (0, 8))]),
    _case("a session grows backwards", [("a", 20, 1), ("a", 12, 1)],
          [("a", 1, (20, 20)), ("a", None, (20, 20)), ("a", 2, (12, 20))]),
    _case("a record joins two sessions", [("a", 0, 1), ("a", 20, 1), ("a", 10, 1)],
          [("a", 1, (0, 0)), ("a", 1, (20, 20)), ("a", None, (0, 0)), ("a", None, (20, 20)), ("a", 3, (0, 20))],
          telling=True),
    _case("a record joins the nearest two of three", [("a", 0, 1), ("a", 20, 1), ("a", 40, 1), ("a", 30, 1)],
          [("a", 1, (0, 0)), ("a", 1, (20, 20)), ("a", 1, (40, 40)), ("a", None, (20, 20)), ("a", None, (40, 40)),
           ("a", 3, (20, 40))]),
    _merged("SUM", "SUM(v)", 1, 2, 6),
    _merged("AVG", "AVG(v)", 1.0, 2.0, 2.0),
    _merged("MIN", "MIN(v)", 1, 2, 1),
    _merged("MAX", "MAX(v)", 1, 2, 3),
    _merged("COLLECT_LIST", "COLLECT_LIST(v)", [1], [2], [1, 2, 3]),
    _merged("COLLECT_SET", "COLLECT_SET(v)", [1], [2], [1, 2, 3]),
    _merged("LATEST_BY_OFFSET", "LATEST_BY_OFFSET(v)", 1, 2, 3),
    _merged("EARLIEST_BY_OFFSET", "EARLIEST_BY_OFFSET(v)", 1, 2, 1),
    _merged("TOPK", "TOPK(v, 2)", [1], [2], [3, 2]),
    _merged("TOPKDISTINCT", "TOPKDISTINCT(v, 2)", [1], [2], [3, 2]),
    _merged("COUNT_DISTINCT", "COUNT_DISTINCT(v)", 1, 1, 3),
    _merged("HISTOGRAM", "HISTOGRAM(CAST(v AS STRING))",
             {"R": {"1": 1}}, {"R": {"2": 1}}, {"R": {"1": 1, "2": 1, "3": 1}}),
    _merged("ATTR", "ATTR(v)", 1, 2, {"R": None}),
    _merged("STDDEV_SAMP", "STDDEV_SAMP(v)", 0.0, 0.0, 1.0),
    _case("the bounds as columns", [("a", 3, 1), ("a", 8, 1)],
          [("a", {"R": 1, "WS": 3, "WE": 3}, (3, 3)), ("a", None, (3, 3)),
           ("a", {"R": 2, "WS": 3, "WE": 8}, (3, 8))],
          select="COUNT(*) AS r, WINDOWSTART AS ws, WINDOWEND AS we"),
    _case("HAVING", [("a", 0, 1), ("a", 5, 1), ("a", 9, 1)], [("a", 2, (0, 5)), ("a", None, (0, 5)), ("a", 3, (0, 9))],
          rest="HAVING COUNT(*) > 1"),
    _case("a late record makes a session of its own within the grace period", [("a", 40, 1), ("a", 25, 1)],
          [("a", 1, (40, 40)), ("a", 1, (25, 25))], window=_GRACE),
    _case("a record after the grace period is dropped", [("a", 40, 1), ("a", 24, 1)], [("a", 1, (40, 40))],
          window=_GRACE),
    _case("a late record that joins an open session counts", [("a", 30, 1), ("b", 40, 1), ("a", 22, 1)],
          [("a", 1, (30, 30)), ("b", 1, (40, 40)), ("a", None, (30, 30)), ("a", 2, (22, 30))], window=_GRACE),
    _case("without GRACE PERIOD records may be a day late", [("a", 50_000_000, 1), ("a", 100, 1)],
          [("a", 1, (50_000_000, 50_000_000)), ("a", 1, (100, 100))]),
    Case("by a column that is not the key",
         f"{_S}CREATE TABLE o AS SELECT v, COUNT(*) AS r FROM s WINDOW {_TEN} GROUP BY v;",
         [In("s", "a", {"v": 1}, 0), In("s", "b", {"v": 1}, 5), In("s", "c", {"v": None}, 6)],
         [Out("O", 1, {"R": 1}, 0, (0, 0)), Out("O", 1, None, 0, (0, 0)), Out("O", 1, {"R": 2}, 5, (0, 5))],
         grouped=GROUPED),
    Case("WHERE",
         f"{_S}CREATE TABLE o AS SELECT k, COUNT(*) AS r FROM s WINDOW {_TEN} WHERE v > 0 GROUP BY k;",
         [In("s", "a", {"v": 1}, 0), In("s", "a", {"v": 0}, 5), In("s", "a", {"v": 1}, 10)],
         [Out("O", "a", {"R": 1}, 0, (0, 0)), Out("O", "a", None, 0, (0, 0)), Out("O", "a", {"R": 2}, 10, (0, 10))],
         grouped=GROUPED),
]  # fmt: skip
