"""EXPLAIN draws the graph of topics and operators. No Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from ottla.sql.executing.explaining import duration, graph
from tests.sql.test_planning import plan, sources


def test_a_join_that_is_counted_in_windows() -> None:
    query = (
        "SELECT p.owner, COUNT(*) AS n FROM clicks c LEFT JOIN pages p ON c.page = p.page WINDOW TUMBLING "
        "(SIZE 1 HOUR, GRACE PERIOD 90 SECONDS) WHERE c.id > 3 GROUP BY p.owner HAVING COUNT(*) > 1 EMIT CHANGES"
    )
    assert graph(plan(query), sources()["OWNERS"]).splitlines() == [
        "write TABLE OWNERS to topic 'OWNERS'",
        "└─ select OWNER (key), N",
        "   └─ filter groups COUNT(*) > 1",
        "      └─ aggregate by p.owner in windows TUMBLING (1 HOUR, grace period 90 SECONDS)",
        "         └─ filter c.id > 3",
        "            └─ join LEFT on c.page = p.page",
        "               ├─ read STREAM CLICKS C from topic 'CLICKS' (key KAFKA, value JSON)",
        "               └─ read TABLE PAGES P from topic 'PAGES' (key KAFKA, value JSON)",
    ]


def test_streams_and_pulls() -> None:
    joined = (
        "SELECT * FROM clicks c JOIN views v WITHIN (1 HOUR, 5 MINUTES) ON c.id = v.id EMIT CHANGES LIMIT 3"
    )
    assert graph(plan(joined)).splitlines()[2].strip() == (
        "└─ join INNER within 1 HOUR, 5 MINUTES on c.id = v.id"
    )
    assert graph(plan("SELECT title FROM pages WHERE page = 'a'")).splitlines() == [
        "select TITLE",
        "└─ look up keys in the index of TABLE PAGES from topic 'PAGES' (key KAFKA, value JSON)",
    ]
    assert graph(plan("SELECT title FROM pages WHERE owner = 'a'")).splitlines() == [
        "select TITLE",
        "└─ filter owner = 'a'",
        "   └─ read TABLE PAGES from topic 'PAGES' (key KAFKA, value JSON)",
    ]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 SECONDS"), (1, "1 MILLISECOND"), (1500, "1500 MILLISECONDS"), (172_800_000, "2 DAYS")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
