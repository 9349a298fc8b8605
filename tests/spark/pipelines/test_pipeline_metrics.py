"""Pipeline metrics, from the state files of their processes. Needs no Spark."""

from __future__ import annotations

from ottla.spark.pipelines.metrics import pipeline_lines
from ottla.spark.pipelines.query_progress import QueryProgress
from ottla.spark.pipelines.state import Phase, PipelineState
from tests.broker.metrics.scraping import Metrics


def state(name: str, phase: Phase, *queries: QueryProgress) -> PipelineState:
    return PipelineState(
        name, 1, 1, "p.py", "local[2]", "localhost:9092", "/c", "/l", 0.0, phase, queries=list(queries)
    )


def test_rates_lag_and_batch_times_are_shown_as_far_as_they_are_known() -> None:
    counting = QueryProgress(
        "counts", True, batch=4, rows_in=10, rows_in_per_second=5.0, batch_seconds=0.5, lag=3, rows_total=40
    )
    found = Metrics(
        "".join(
            pipeline_lines(
                [state("a", Phase.RUNNING, counting), state("b", Phase.FAILED, QueryProgress("x", False))]
            )
        )
    )
    of = {"pipeline": "a", "query": "counts"}
    assert found.value("ottla_query_lag", **of) == 3
    assert found.value("ottla_query_rows_total", **of) == 40
    assert found.value("ottla_query_input_rows_per_second", **of) == 5.0
    assert found.value("ottla_query_batch_seconds", **of) == 0.5
    assert not found.all("ottla_query_output_rows_per_second")
    assert not found.all("ottla_query_lag", pipeline="b")
    assert found.value("ottla_pipeline_up", pipeline="a") == 1
    assert found.value("ottla_pipeline_up", pipeline="b") == 0
    assert found.value("ottla_query_active", pipeline="b", query="x") == 0
