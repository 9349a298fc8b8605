"""Rows handed to a function one by one: for alerts, mail and other things that are not tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.spark.queries import start_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StreamingQuery


class RowFailed(Exception):
    """What the function raised, with the query, the batch and the row it was about."""


def foreach(
    df: DataFrame,
    function: Callable[[Row], Any],
    *,
    name: str,
    checkpoint: str | None = None,
    trigger: str | None = None,
    output_mode: str = "append",
) -> StreamingQuery | None:
    """Call `function` with each row, in the driver. After a failure a row may come again; none is skipped.

    What the function raises ends the query, which starts with the same micro-batch next time.
    """

    def call(rows: DataFrame, batch: int) -> None:
        for row in rows.toLocalIterator():
            try:
                function(row)
            except Exception as error:
                raise RowFailed(f"{name}: batch {batch}: {row}: {type(error).__name__}: {error}") from error

    if not df.isStreaming:
        call(df, 0)
        return None
    return start_batches(df, call, name, checkpoint, trigger, output_mode)
