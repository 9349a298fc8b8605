"""The order in which Kafka Streams would process the records that wait."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np


def processing_order(inputs: Any, parts: Any, places: Any, times: Any, tables: Collection[int]) -> Any:
    """Indexes of rows, given what each is.

    Kafka Streams takes the record with the lowest time among those that come next in each partition. One that is
    behind a later one in its partition has to wait for that: so what counts is the highest time up to it.
    """
    order = np.lexsort((places, parts, inputs))
    reached = times[order].copy()
    inputs, parts = inputs[order], parts[order]
    borders = np.flatnonzero((np.diff(inputs) != 0) | (np.diff(parts) != 0)) + 1
    for run in np.split(reached, borders):
        np.maximum.accumulate(run, out=run)
    streams = ~np.isin(inputs, list(tables))
    # Stable: within a part the order stays.
    return order[np.lexsort((parts, inputs, streams, reached))]
