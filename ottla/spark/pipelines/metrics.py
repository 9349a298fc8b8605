"""Metrics of streaming queries: rows, batch durations and lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ottla.monitoring.metrics.text import family, labels
from ottla.spark.pipelines.query_progress import QueryProgress
from ottla.spark.pipelines.state import PipelineState

_FIGURES = {
    "rows_total": ("counter", "rows_total", "Rows that were read since the query was started."),
    "input_rows_per_second": ("gauge", "rows_in_per_second", "Rows read per second, in the last batch."),
    "output_rows_per_second": ("gauge", "rows_out_per_second", "Rows written per second, in the last batch."),
    "batch_seconds": ("gauge", "batch_seconds", "How long the last batch took."),
    "batch": ("gauge", "batch", "The number of the last batch."),
    "lag": ("gauge", "lag", "Records in the topics that have not been read."),
    "state_rows": ("gauge", "state_rows", "Rows of state."),
    "state_bytes": ("gauge", "state_bytes", "Bytes of state."),
}


def query_lines(queries: Iterable[tuple[str, QueryProgress]]) -> Iterator[str]:
    known = list(queries)
    yield from family(
        "ottla_query_active",
        "gauge",
        "1 while the query runs.",
        ((label, int(each.is_active)) for label, each in known),
    )
    for name, (kind, attribute, about) in _FIGURES.items():
        yield from family(
            f"ottla_query_{name}",
            kind,
            about,
            ((label, value) for label, each in known if (value := getattr(each, attribute)) is not None),
        )


def pipeline_lines(pipelines: Sequence[PipelineState]) -> Iterator[str]:
    yield from family(
        "ottla_pipeline_up",
        "gauge",
        "1 while the process of the pipeline runs.",
        ((labels(pipeline=each.name), int(each.is_alive)) for each in pipelines),
    )
    yield from query_lines(
        (labels(pipeline=each.name, query=query.name), query) for each in pipelines for query in each.queries
    )
