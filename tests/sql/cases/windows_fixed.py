"""Tumbling and hopping windows: records out of order, grace, and EMIT FINAL."""

from __future__ import annotations

from typing import Any

from tests.sql.cases.case import WAYS, Case, In, Out, Way, refused

_S = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', partitions=1);"
TUMBLING, HOPPING, FINAL = "WINDOW TUMBLING", "WINDOW HOPPING", "EMIT FINAL"

Row = tuple[str, int, Any, tuple[int, int]] | tuple[str, int, Any, tuple[int, int], int]


def _case(
    grouped: str,
    name: str,
    window: str,
    records: list[tuple[str, int, int | None]],
    rows: list[Any],
    *,
    select: str = "COUNT(*) AS r",
    rest: str = "",
    telling: bool = False,
    ways: tuple[Way, ...] = WAYS,
) -> Case:
    """Return a case. Records are (key, time, value); rows are (key, time, result, window)."""
    return Case(
        name,
        f"{_S}CREATE TABLE o AS SELECT k, {select} FROM s WINDOW {window} GROUP BY k {rest};",
        [In("s", key, {"v": value}, time) for key, time, value in records],
        [
            Out("O",
            key, None if result is None else result if isinstance(result, dict) else {"R": result}, time, bounds)
            for key, time, result, bounds in rows
        ],
        grouped=grouped,
        telling=telling,
        ways=ways,
    )  # fmt: skip


_TEN = "TUMBLING (SIZE 10 MILLISECONDS)"
_TEN_GRACE = "TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)"

TUMBLING_CASES = [
    _case(TUMBLING, "a window begins at multiples of its size", _TEN,
          [("a", 0, 1), ("a", 9, 1), ("a", 10, 1), ("a", 25, 1)],
          [("a", 0, 1, (0, 10)), ("a", 9, 2, (0, 10)), ("a", 10, 1, (10, 20)), ("a", 25, 1, (20, 30))], telling=True),
    _case(TUMBLING, "keys have windows of their own", _TEN, [("a", 1, 1), ("b", 2, 1), ("a", 3, 1)],
          [("a", 1, 1, (0, 10)), ("b", 2, 1, (0, 10)), ("a", 3, 2, (0, 10))]),
    _case(TUMBLING, "records out of order go into their windows", _TEN, [("a", 15, 1), ("a", 3, 1), ("a", 12, 1)],
          [("a", 15, 1, (10, 20)), ("a", 3, 1, (0, 10)), ("a", 15, 2, (10, 20))]),
    _case(TUMBLING, "the time of a row is the latest of its records", _TEN, [("a", 8, 1), ("a", 2, 1)],
          [("a", 8, 1, (0, 10)), ("a", 8, 2, (0, 10))]),
    _case(TUMBLING, "SUM", _TEN, [("a", 1, 5), ("a", 2, None), ("a", 3, 7)],
          [("a", 1, 5, (0, 10)), ("a", 2, 5, (0, 10)), ("a", 3, 12, (0, 10))], select="SUM(v) AS r"),
    _case(TUMBLING, "MAX begins anew in each window", _TEN, [("a", 1, 9), ("a", 11, 2)],
          [("a", 1, 9, (0, 10)), ("a", 11, 2, (10, 20))], select="MAX(v) AS r"),
    _case(TUMBLING, "the bounds as columns", _TEN, [("a", 11, 1)],
          [("a", 11, {"R": 1, "WS": 10, "WE": 20}, (10, 20))],
          select="COUNT(*) AS r, WINDOWSTART AS ws, WINDOWEND AS we"),
    _case(TUMBLING, "the bounds in an expression", _TEN, [("a", 11, 1)], [("a", 11, 10, (10, 20))],
          select="WINDOWEND - WINDOWSTART + COUNT(*) - 1 AS r"),
    _case(TUMBLING, "a late record within the grace period", _TEN_GRACE, [("a", 1, 1), ("a", 14, 1), ("a", 9, 1)],
          [("a", 1, 1, (0, 10)), ("a", 14, 1, (10, 20)), ("a", 9, 2, (0, 10))]),
    _case(TUMBLING, "a record after the grace period is dropped", _TEN_GRACE,
          [("a", 1, 1), ("a", 15, 1), ("a", 9, 1), ("a", 16, 1)],
          [("a", 1, 1, (0, 10)), ("a", 15, 1, (10, 20)), ("a", 16, 2, (10, 20))]),
    _case(TUMBLING, "the grace period goes by the records of all keys", _TEN_GRACE,
          [("a", 1, 1), ("b", 15, 1), ("a", 9, 1)], [("a", 1, 1, (0, 10)), ("b", 15, 1, (10, 20))]),
    _case(TUMBLING, "HAVING", _TEN, [("a", 1, 60), ("a", 2, 50), ("a", 3, -90), ("a", 11, 10)],
          [("a", 2, 110, (0, 10)), ("a", 3, None, (0, 10))], select="SUM(v) AS r", rest="HAVING SUM(v) > 100"),
    *(refused(TUMBLING, f"the bounds in {clause}", f"{_S}CREATE TABLE o AS SELECT {select};",
              "can only be used in the SELECT clause of windowed aggregations")
      for clause, select in (
          ("HAVING", f"k, COUNT(*) AS r FROM s WINDOW {_TEN} GROUP BY k HAVING WINDOWSTART > 0"),
          ("WHERE", f"k, COUNT(*) AS r FROM s WINDOW {_TEN} WHERE WINDOWEND > 5 GROUP BY k"),
          ("GROUP BY", f"k, COUNT(*) AS r FROM s WINDOW {_TEN} GROUP BY k, WINDOWSTART"),
          ("an aggregate", f"k, MIN(WINDOWSTART) AS r FROM s WINDOW {_TEN} GROUP BY k"))),
    _case(TUMBLING, "the bounds with the name of the source", _TEN, [("a", 11, 1)], [("a", 11, 10, (10, 20))],
          select="s.WINDOWSTART / COUNT(*) AS r"),
    _case(TUMBLING, "COLLECT_LIST in the order of offsets", _TEN, [("a", 5, 1), ("a", 2, 2)],
          [("a", 5, [1], (0, 10)), ("a", 5, [1, 2], (0, 10))], select="COLLECT_LIST(v) AS r"),
    _case(TUMBLING, "LATEST_BY_OFFSET goes by offsets", _TEN, [("a", 5, 1), ("a", 2, 2)],
          [("a", 5, 1, (0, 10)), ("a", 5, 2, (0, 10))], select="LATEST_BY_OFFSET(v) AS r"),
    Case("a record without a value is no record",
         f"{_S}CREATE TABLE o AS SELECT k, COUNT(*) AS r FROM s WINDOW {_TEN} GROUP BY k;",
         [In("s", "a", {"v": 1}, 1), In("s", "a", None, 2), In("s", "a", {"v": 1}, 3)],
         [Out("O", "a", {"R": 1}, 1, (0, 10)), Out("O", "a", {"R": 2}, 3, (0, 10))], grouped=TUMBLING),
    Case("a record without a key is in no group",
         f"{_S}CREATE TABLE o AS SELECT k, COUNT(*) AS r FROM s WINDOW {_TEN} GROUP BY k;",
         [In("s", None, {"v": 1}, 1), In("s", "a", {"v": 1}, 3)], [Out("O", "a", {"R": 1}, 3, (0, 10))],
         grouped=TUMBLING),
]  # fmt: skip

_HOP = "HOPPING (SIZE 10 MILLISECONDS, ADVANCE BY 5 MILLISECONDS)"
_HOP_GRACE = "HOPPING (SIZE 10 MILLISECONDS, ADVANCE BY 5 MILLISECONDS, GRACE PERIOD 2 MILLISECONDS)"

HOPPING_CASES = [
    _case(HOPPING, "a record is in several windows", _HOP, [("a", 12, 1)],
          [("a", 12, 1, (5, 15)), ("a", 12, 1, (10, 20))], telling=True),
    _case(HOPPING, "there is no window before 0", _HOP, [("a", 3, 1)], [("a", 3, 1, (0, 10))]),
    _case(HOPPING, "at the border", _HOP, [("a", 10, 1)], [("a", 10, 1, (5, 15)), ("a", 10, 1, (10, 20))]),
    _case(HOPPING, "records out of order", _HOP, [("a", 12, 1), ("a", 7, 1)],
          [("a", 12, 1, (5, 15)), ("a", 12, 1, (10, 20)), ("a", 7, 1, (0, 10)), ("a", 12, 2, (5, 15))]),
    _case(HOPPING, "a late record goes into the windows that are open", _HOP_GRACE, [("a", 13, 1), ("a", 7, 1)],
          [("a", 13, 1, (5, 15)), ("a", 13, 1, (10, 20)), ("a", 13, 2, (5, 15))]),
    _case(HOPPING, "the bounds as columns", _HOP, [("a", 7, 1)],
          [("a", 7, {"R": 1, "WS": 0, "WE": 10}, (0, 10)), ("a", 7, {"R": 1, "WS": 5, "WE": 15}, (5, 15))],
          select="COUNT(*) AS r, WINDOWSTART AS ws, WINDOWEND AS we"),
    _case(HOPPING, "windows that leave gaps are refused or not, but hold what is in them",
          "HOPPING (SIZE 10 MILLISECONDS, ADVANCE BY 10 MILLISECONDS)", [("a", 3, 1), ("a", 13, 1)],
          [("a", 3, 1, (0, 10)), ("a", 13, 1, (10, 20))]),
    _case(HOPPING, "HAVING", _HOP, [("a", 7, 1), ("a", 12, 1)], [("a", 12, 2, (5, 15))], rest="HAVING COUNT(*) > 1"),
]  # fmt: skip

_ZERO = "TUMBLING (SIZE 2 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)"
_ONE = "TUMBLING (SIZE 2 MILLISECONDS, GRACE PERIOD 1 MILLISECOND)"
_SESSION = "SESSION (5 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS)"

FINAL_CASES = [
    _case(FINAL, "when the window ends", _ZERO, [("a", 0, 1), ("a", 1, 1), ("a", 2, 1)], [("a", 1, 2, (0, 2))],
          rest="EMIT FINAL", telling=True),
    _case(FINAL, "not before", _ZERO, [("a", 0, 1), ("a", 1, 1)], [], rest="EMIT FINAL"),
    _case(FINAL, "without GRACE PERIOD it is 0", "TUMBLING (SIZE 2 MILLISECONDS)", [("a", 0, 1), ("a", 2, 1)],
          [("a", 0, 1, (0, 2))], rest="EMIT FINAL"),
    _case(FINAL, "with what came late", _ONE, [("a", 0, 1), ("a", 1, 1), ("a", 2, 1), ("a", 1, 1), ("a", 5, 1)],
          [("a", 1, 3, (0, 2)), ("a", 2, 1, (2, 4))], rest="EMIT FINAL"),
    _case(FINAL, "without what came too late", _ONE, [("a", 0, 1), ("a", 3, 1), ("a", 1, 1), ("a", 5, 1)],
          [("a", 0, 1, (0, 2)), ("a", 3, 1, (2, 4))], rest="EMIT FINAL"),
    _case(FINAL, "a record of another key ends it", _ZERO, [("a", 0, 1), ("b", 4, 1)], [("a", 0, 1, (0, 2))],
          rest="EMIT FINAL"),
    _case(FINAL, "several keys", _ONE, [("a", 0, 1), ("b", 1, 1), ("a", 1, 1), ("b", 5, 1)],
          [("a", 1, 2, (0, 2)), ("b", 1, 1, (0, 2))], rest="EMIT FINAL"),
    _case(FINAL, "hopping windows",
          "HOPPING (SIZE 5 MILLISECONDS, ADVANCE BY 2 MILLISECONDS, GRACE PERIOD 1 MILLISECOND)",
          [("a", 0, 1), ("a", 1, 1), ("a", 2, 1), ("a", 1, 1), ("a", 6, 1), ("a", 5, 1), ("a", 10, 1)],
          [("a", 2, 4, (0, 5)), ("a", 6, 3, (2, 7)), ("a", 6, 2, (4, 9))], rest="EMIT FINAL"),
    _case(FINAL, "sessions", _SESSION, [("a", 0, 1), ("a", 5, 1), ("a", 1, 1), ("b", 6, 1), ("a", 30, 1)],
          [("a", 5, 3, (0, 5)), ("b", 6, 1, (6, 6))], rest="EMIT FINAL"),
    _case(FINAL, "a session that was joined comes once", "SESSION (5 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS)",
          [("a", 0, 1), ("a", 8, 1), ("a", 4, 1), ("b", 40, 1)], [("a", 8, 3, (0, 8))], rest="EMIT FINAL"),
    _case(FINAL, "HAVING", _ZERO, [("a", 0, 1), ("b", 0, 1), ("b", 1, 1), ("c", 9, 1)], [("b", 1, 2, (0, 2))],
          rest="HAVING COUNT(*) > 1 EMIT FINAL"),
    refused(FINAL, "without WINDOW", f"{_S}CREATE TABLE o AS SELECT k, COUNT(*) FROM s GROUP BY k EMIT FINAL;",
            "EMIT FINAL"),
    refused(TUMBLING, "without GROUP BY", f"{_S}CREATE STREAM o AS SELECT k, v FROM s WINDOW {_TEN};", "WINDOW"),
]  # fmt: skip

CASES: list[Case] = [*TUMBLING_CASES, *HOPPING_CASES, *FINAL_CASES]
