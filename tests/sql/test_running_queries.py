"""Stopping queries, with stand-ins for Spark's."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from ottla.sql import SqlError
from ottla.sql.executing.running_queries import Running, RunningQueries


class Query:
    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.isActive = True

    def stop(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.isActive = False

    def exception(self) -> None:
        return None


def running(**named: Query) -> RunningQueries:
    queries = RunningQueries()
    for name, query in named.items():
        held: Any = query
        plan: Any = None
        queries.add(Running(name, held, "SINK", "", plan))
    return queries


def test_a_query_that_does_not_stop_stays_in_the_list_and_the_others_end() -> None:
    from pyspark.errors import PySparkRuntimeError

    stuck = Query(PySparkRuntimeError("Stream execution thread failed to stop within 20 seconds\n\tat java"))
    queries = running(first=Query(), stuck=stuck, last=Query())
    with pytest.raises(SqlError) as caught:
        queries.stop_all()
    assert str(caught.value) == (
        "The query stuck was asked to stop and has not: Stream execution thread failed to stop within 20 seconds."
    )
    assert [each.query_id for each in queries.all()] == ["stuck"]
    stuck.failure = None
    assert queries.stop_all() == ["stuck"]
    assert queries.all() == []


def test_a_query_that_is_not_here_is_refused_with_what_is_here() -> None:
    with pytest.raises(SqlError, match=r"This session runs no query other\. There are one\."):
        running(one=Query()).stop("other")
