"""Groups, windows and sessions as pure logic, compared with the output of Kafka Streams."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("sqlglot")

from ottla.sql.sql_types import SqlType
from ottla.sql.stateful.aggregates import AggregateCall
from ottla.sql.stateful.grouped import (
    Aggregation,
    Aggregator,
    Change,
    GroupRow,
    TableRows,
    last_of_each,
)
from ottla.sql.stateful.sessions import SessionAggregator

SUM = AggregateCall("SUM", (SqlType("BIGINT"),))
LIST = AggregateCall("COLLECT_LIST", (SqlType("BIGINT"),))
LATEST = AggregateCall("LATEST_BY_OFFSET", (SqlType("BIGINT"),))


class Memory:
    """A state that lives as long as a test."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.entries.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self.entries[key] = value

    def delete(self, key: bytes) -> None:
        self.entries.pop(key, None)

    def scan(
        self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        found = [
            (key, value)
            for key, value in sorted(self.entries.items())
            if key.startswith(prefix) and key >= start and (stop is None or key < stop)
        ]
        return found[:limit]


def run(
    aggregation: Aggregation, records: list[tuple[str, int, int]], memory: Memory | None = None
) -> list[list[GroupRow]]:
    """Process each record in its own batch and return the output of each."""
    memory = memory or Memory()
    kind = SessionAggregator if aggregation.window == "SESSION" else Aggregator
    batches = []
    for group, time, value in records:
        aggregator = kind(aggregation, memory)
        batches.append(aggregator.process(Change((group,), time, tuple((value,) for _ in aggregation.calls))))
        aggregator.flush()
    return batches


def seen(rows: list[GroupRow]) -> list[Any]:
    return [(row.group[0], row.start, row.end, row.results and row.results[0], row.time) for row in rows]


def test_a_session_grows_and_its_old_row_is_deleted_first() -> None:
    first, second = run(Aggregation((SUM,), "SESSION", 30, grace_ms=100), [("a", 0, 5), ("a", 30, 7)])
    assert seen(first) == [("a", 0, 0, 5, 0)]
    assert seen(second) == [("a", 0, 0, None, 0), ("a", 0, 30, 12, 30)]


def test_a_record_joins_two_sessions() -> None:
    *_, last = run(
        Aggregation((LIST,), "SESSION", 10, grace_ms=100),
        [("a", 0, 1), ("a", 20, 2), ("b", 5, 9), ("a", 10, 3)],
    )
    # First the records of the first session, then of the second, then the record that joins them.
    assert seen(last) == [("a", 0, 0, None, 0), ("a", 20, 20, None, 20), ("a", 0, 20, [1, 2, 3], 20)]


def test_a_record_within_a_session_deletes_nothing() -> None:
    *_, last = run(Aggregation((SUM,), "SESSION", 10, grace_ms=100), [("a", 0, 1), ("a", 10, 2), ("a", 5, 4)])
    assert seen(last) == [("a", 0, 10, 7, 10)]
    assert last[0].before == (3,)


def test_a_record_that_is_too_late_for_a_session_is_dropped() -> None:
    memory = Memory()
    batches = run(
        Aggregation((SUM,), "SESSION", 10, grace_ms=5),
        [("a", 0, 1), ("b", 100, 1), ("a", 84, 1), ("a", 85, 1)],
        memory,
    )
    assert [seen(each) for each in batches[2:]] == [[], [("a", 85, 85, 1, 85)]]


def test_sessions_that_are_over_are_forgotten() -> None:
    memory = Memory()
    records = [(f"g{number}", number * 100, 1) for number in range(50)]
    run(Aggregation((SUM,), "SESSION", 10, grace_ms=5), records, memory)
    assert len(memory.entries) < 10


def test_final_sessions_come_when_the_stream_time_has_passed_them() -> None:
    batches = run(
        Aggregation((SUM,), "SESSION", 5, final=True),
        [("a", 0, 1), ("a", 5, 1), ("a", 1, 1), ("b", 6, 1), ("a", 30, 1)],
    )
    assert [seen(each) for each in batches[:4]] == [[], [], [], []]
    assert seen(batches[4]) == [("a", 0, 5, 3, 5), ("b", 6, 6, 1, 6)]


def test_hopping_windows_take_a_record_each() -> None:
    [rows] = run(Aggregation((SUM,), "HOPPING", 5, 2, grace_ms=1), [("a", 6, 1)])
    assert seen(rows) == [("a", 2, 7, 1, 6), ("a", 4, 9, 1, 6), ("a", 6, 11, 1, 6)]


def test_a_window_takes_records_until_its_grace_period_is_over() -> None:
    batches = run(
        Aggregation((SUM,), "TUMBLING", 10, grace_ms=5),
        [("a", 1, 1), ("a", 14, 1), ("a", 9, 1), ("a", 15, 1), ("a", 8, 1)],
    )
    assert seen(batches[2]) == [("a", 0, 10, 2, 9)]
    assert batches[4] == []


def test_final_windows_come_once() -> None:
    batches = run(
        Aggregation((SUM,), "HOPPING", 5, 2, grace_ms=1, final=True),
        [("a", 0, 1), ("a", 1, 1), ("a", 2, 1), ("a", 1, 1), ("a", 6, 1), ("a", 5, 1), ("a", 10, 1)],
    )
    assert [seen(each) for each in batches if each] == [
        [("a", 0, 5, 4, 2)],
        [("a", 2, 7, 3, 6), ("a", 4, 9, 2, 6)],
    ]


def test_windows_that_are_over_are_forgotten() -> None:
    memory = Memory()
    run(Aggregation((SUM,), "TUMBLING", 10), [("a", number * 10, 1) for number in range(50)], memory)
    assert len(memory.entries) < 8


def test_a_row_of_a_table_moves_to_another_group() -> None:
    memory = Memory()
    rows = TableRows(memory)

    def change(key: int, group: str | None, value: int) -> list[tuple[Any, ...]]:
        now = None if group is None else ((group,), ((value,),))
        return [(each.group[0], each.added, each.removed) for each in rows.process((key,), 1, now)]

    assert change(1, "a", 5) == [("a", ((5,),), None)]
    assert change(1, "a", 6) == [("a", ((6,),), ((5,),))]
    assert change(1, "b", 7) == [("a", None, ((6,),)), ("b", ((7,),), None)]
    rows.flush()
    rows = TableRows(memory)
    assert change(1, None, 0) == [("b", None, ((7,),))]
    assert change(1, None, 0) == []


def test_what_a_table_takes_out_is_undone() -> None:
    aggregator = Aggregator(Aggregation((SUM, LIST)), Memory())
    aggregator.process(Change(("a",), 1, ((5,), (5,))))
    aggregator.process(Change(("a",), 2, ((7,), (7,))))
    [row] = aggregator.process(Change(("a",), 3, ((9,), (9,)), ((5,), (5,))))
    assert (row.results, row.before, row.time) == ((16, [7, 9]), (12, [5, 7]), 3)
    [row] = aggregator.process(Change(("a",), 1, None, ((9,), (9,))))
    assert (row.results, row.time) == ((7, [7]), 3)


def test_the_order_of_records_outlives_a_batch() -> None:
    *_, last = run(Aggregation((LATEST,)), [("a", 9, 1), ("b", 1, 5), ("a", 3, 2)])
    assert seen(last) == [("a", None, None, 2, 9)]


def test_several_changes_of_a_group_are_one() -> None:
    rows = [
        GroupRow(("a",), 1, (1,)),
        GroupRow(("b",), 1, (1,)),
        GroupRow(("a",), 2, (2,), (1,)),
        GroupRow(("a",), 2, None, (1,), 0, 5),
    ]
    assert last_of_each(rows) == [rows[1], rows[2], rows[3]]
