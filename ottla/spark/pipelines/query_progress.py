"""Key figures from Spark's progress report after each micro-batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# topic → partition → offset, as reported by the source
_Offsets = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """Figures of a query, None if unknown or before the first batch."""

    name: str
    is_active: bool
    batch: int | None = None
    rows_in: int = 0
    rows_in_per_second: float | None = None
    rows_out_per_second: float | None = None
    batch_seconds: float | None = None
    lag: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    rows_total: int = 0  # of all batches since the start of the query
    reads: tuple[str, ...] = field(default=(), compare=False)  # topics
    writes: tuple[str, ...] = field(default=(), compare=False)  # topics, as far as known

    def ended(self) -> QueryProgress:
        """Return the figures of an ended query, which has no rates."""
        return replace(self, is_active=False, rows_in_per_second=None, rows_out_per_second=None)


def query_progress(
    name: str, is_active: bool, progress: Mapping[str, Any] | None, before: QueryProgress | None = None
) -> QueryProgress:
    """Build the figures from the JSON of a StreamingQueryProgress. `before` holds the previous figures."""
    if not is_active:
        return query_progress(name, True, progress, before).ended()
    if progress is None:
        return QueryProgress(name, is_active)
    durations = progress.get("durationMs", {})
    if durations and "addBatch" not in durations:
        # Without new data, Spark reports the number of the next batch. Keep the figures of the last batch.
        batch = progress["batchId"] - 1
        last = before or QueryProgress(name, is_active, batch=batch if batch >= 0 else None)
        lag = _lag(progress.get("sources", []))
        return replace(
            last,
            is_active=is_active,
            rows_in=0,
            rows_in_per_second=0.0,
            rows_out_per_second=None if last.rows_out_per_second is None else 0.0,
            lag=last.lag if lag is None else lag,
        )
    rows_in = progress.get("numInputRows", 0)
    rows_total = 0 if before is None else before.rows_total
    if before is None or before.batch != progress["batchId"]:
        rows_total += rows_in
    rate = _rate(progress.get("inputRowsPerSecond"))
    milliseconds = durations.get("triggerExecution", progress.get("batchDuration"))
    operators = progress.get("stateOperators", [])
    return QueryProgress(
        name,
        is_active,
        batch=progress["batchId"],
        rows_in=rows_in,
        # Spark counts from the start of the previous batch and reports 0 for the first batch of a run.
        rows_in_per_second=None if rate == 0 and rows_in else rate,
        rows_out_per_second=_rows_out(progress, milliseconds),
        batch_seconds=None if milliseconds is None else milliseconds / 1000,
        lag=_lag(progress.get("sources", [])),
        state_rows=sum(each["numRowsTotal"] for each in operators) if operators else None,
        state_bytes=sum(map(_state_bytes, operators)) if operators else None,
        rows_total=rows_total,
        reads=_topics(progress.get("sources", [])),
        writes=() if before is None else before.writes,
    )


def missed_batches(before: QueryProgress | None, last: Mapping[str, Any]) -> bool:
    if before is None or before.batch is None:
        return True
    batch: int = last["batchId"]
    return batch > before.batch + 1


def _rate(value: object) -> float | None:
    # Spark writes NaN and Infinity for a batch that took no time.
    return round(value, 1) if isinstance(value, float | int) and 0 <= value < float("inf") else None


def _rows_out(progress: Mapping[str, Any], milliseconds: float | None) -> float | None:
    rows: int | None = progress.get("sink", {}).get("numOutputRows", -1)
    if rows is None or rows < 0 or not milliseconds:  # a custom sink does not count
        return None
    return round(rows * 1000 / milliseconds, 1)


def _state_bytes(operator: Mapping[str, Any]) -> int:
    on_disk: int = operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0)
    in_memory: int = operator.get("memoryUsedBytes", 0)
    return in_memory + on_disk


def _lag(sources: list[Mapping[str, Any]]) -> int | None:
    found = [
        _behind(end, latest)
        for source in sources
        if (end := offsets_of(source.get("endOffset"))) is not None
        and (latest := offsets_of(source.get("latestOffset"))) is not None
    ]
    return sum(found) if found else None


def _topics(sources: list[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(sorted({topic for source in sources for topic in offsets_of(source.get("endOffset")) or ()}))


def _behind(end: _Offsets, latest: _Offsets) -> int:
    return sum(
        max(0, offset - end.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def offsets_of(value: object) -> _Offsets | None:
    """Return offsets by topic and partition, or None if the source does not read topics."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict) or not all(
        isinstance(partitions, dict) and all(isinstance(offset, int) for offset in partitions.values())
        for partitions in value.values()
    ):
        return None
    return value
