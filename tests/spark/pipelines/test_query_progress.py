from __future__ import annotations

from typing import Any

from ottla.spark.pipelines.query_progress import QueryProgress, missed_batches, offsets_of, query_progress

# Spark 4.3's report, without the unused parts.
BATCH: dict[str, Any] = {
    "name": "trending",
    "batchId": 3,
    "batchDuration": 800,
    "numInputRows": 50,
    "inputRowsPerSecond": 41.66,
    "processedRowsPerSecond": 62.5,
    "durationMs": {"addBatch": 700, "triggerExecution": 800},
    "stateOperators": [
        {"numRowsTotal": 20, "memoryUsedBytes": 1000, "customMetrics": {"rocksdbSstFileSize": 500}},
        {"numRowsTotal": 1, "memoryUsedBytes": 10, "customMetrics": {}},
    ],
    "sources": [
        {"endOffset": {"tweets": {"0": 15, "1": 7}}, "latestOffset": {"tweets": {"0": 20, "1": 7, "2": 4}}},
        {"endOffset": {"users": {"0": 1}}, "latestOffset": {"users": {"0": 3}}},
    ],
    "sink": {"numOutputRows": 40},
}


def test_the_figures_of_a_batch() -> None:
    assert query_progress("trending", True, BATCH) == QueryProgress(
        "trending",
        True,
        batch=3,
        rows_in=50,
        rows_in_per_second=41.7,
        rows_out_per_second=50.0,
        batch_seconds=0.8,
        lag=11,
        state_rows=21,
        state_bytes=1510,
        rows_total=50,
    )


def test_rows_are_counted_once_per_batch() -> None:
    first = query_progress("trending", True, BATCH)
    again = query_progress("trending", True, BATCH, first)
    later = query_progress("trending", True, {**BATCH, "batchId": 4, "numInputRows": 7}, again)
    assert (first.rows_total, again.rows_total, later.rows_total) == (50, 50, 57)
    assert missed_batches(None, BATCH)
    assert not missed_batches(first, {**BATCH, "batchId": 4})
    assert missed_batches(first, {**BATCH, "batchId": 5})


def test_a_rate_of_0_is_not_shown_for_rows() -> None:
    """Spark has no rate for the first batch of a run, and none for an ended query."""
    first = {**BATCH, "inputRowsPerSecond": 0.0}
    assert query_progress("trending", True, first).rows_in_per_second is None
    assert query_progress("trending", True, {**first, "numInputRows": 0}).rows_in_per_second == 0
    ended = query_progress("trending", False, BATCH)
    assert (ended.is_active, ended.rows_in_per_second, ended.rows_out_per_second) == (False, None, None)
    assert ended.rows_total == 50


def test_before_the_first_batch_nothing_is_known() -> None:
    assert query_progress("trending", True, None) == QueryProgress("trending", True)


def test_what_is_not_known_is_left_open() -> None:
    progress = {
        "batchId": 0,
        "numInputRows": 5,
        "inputRowsPerSecond": float("nan"),
        "sources": [{"endOffset": "0", "latestOffset": None}],
        "sink": {"numOutputRows": -1},
    }
    assert query_progress("rates", False, progress) == QueryProgress(
        "rates", False, batch=0, rows_in=5, rows_total=5
    )


def test_a_query_to_which_nothing_comes_keeps_what_its_last_batch_was() -> None:
    # Spark 4.3's report: with the number of the next batch, and without its parts.
    idle = {
        "batchId": 4,
        "durationMs": {"latestOffset": 2, "triggerExecution": 3},
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "sources": [],
    }
    last = query_progress("trending", True, BATCH)
    figures = query_progress("trending", True, idle, last)
    assert (figures.batch, figures.batch_seconds, figures.lag, figures.state_rows) == (3, 0.8, 11, 21)
    assert (figures.rows_in, figures.rows_in_per_second, figures.rows_out_per_second) == (0, 0.0, 0.0)
    assert query_progress("trending", True, idle).batch == 3
    assert query_progress("trending", True, {**idle, "batchId": 0}).batch is None


def test_offsets_may_come_as_text() -> None:
    assert offsets_of('{"tweets": {"0": 5}}') == {"tweets": {"0": 5}}
    assert offsets_of("5") is None
    assert offsets_of({"path": "file"}) is None
