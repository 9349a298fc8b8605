"""Function calls per row, for alerts, mail and other effects that are not tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.spark.queries import start_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming import StreamingQuery


class RowFailed(Exception):
    """The function failed. The message names the query, the batch and the row."""


def foreach(
    df: DataFrame,
    function: Callable[[Row], Any],
    *,
    name: str,
    checkpoint: str | None = None,
    trigger: str | None = None,
    output_mode: str = "append",
) -> StreamingQuery | None:
    """Call `function` with each row, in the driver. After a failure a row may be repeated; none is skipped.

    An exception from the function ends the query. The next start repeats the same micro-batch.
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
