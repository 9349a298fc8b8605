"""Processing order of waiting records as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np


def processing_order(inputs: Any, parts: Any, places: Any, times: Any, tables: Collection[int]) -> Any:
    """Return the indexes of the rows in processing order.

    Kafka Streams takes the record with the lowest time among the next records of all partitions. A record behind a
    later record in its partition must wait, so rows are ordered by the highest time up to each row.
    """
    order = np.lexsort((places, parts, inputs))
    reached = times[order].copy()
    inputs, parts = inputs[order], parts[order]
    borders = np.flatnonzero((np.diff(inputs) != 0) | (np.diff(parts) != 0)) + 1
    for run in np.split(reached, borders):
        np.maximum.accumulate(run, out=run)
    streams = ~np.isin(inputs, list(tables))
    # Stable, which keeps the order within a part.
    return order[np.lexsort((parts, inputs, streams, reached))]
