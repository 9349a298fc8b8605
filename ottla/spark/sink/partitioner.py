"""Partition of each row: explicit, by key, or round robin."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.records import kernels
from ottla.spark.options import OptionError

#: Minimum run of rows without a key in one partition, because large batches are cheaper.
_RUN = 1000


class Partitioner:
    """Partitioner for one topic. Rows without a key go round robin, starting at a random partition."""

    def __init__(self, topic: str, count: int) -> None:
        self._topic = topic
        self._count = count
        self._next = random.randrange(count)

    def partitions(self, rows: int, keys: pa.Array | None, named: pa.Array | None) -> Any:
        if keys is None:
            result: Any = np.full(rows, -1, np.int32)
        else:
            result = kernels.partition_for(keys, self._count)
        if named is not None:
            result = self._named(named, result)
        anywhere = np.flatnonzero(result < 0)
        if len(anywhere):
            run = max(_RUN, -(-len(anywhere) // self._count))
            result[anywhere] = (self._next + np.arange(len(anywhere)) // run) % self._count
            self._next = (int(result[anywhere[-1]]) + 1) % self._count
        return result

    def _named(self, named: pa.Array, otherwise: Any) -> Any:
        """Use the explicit partitions, and `otherwise` for nulls."""
        given = named.is_valid().to_numpy(zero_copy_only=False)
        numbers = named.fill_null(0).to_numpy(zero_copy_only=False)
        wrong = numbers[(numbers < 0) | (numbers >= self._count)]
        if len(wrong):
            raise OptionError(
                f"A row names partition {wrong[0]}, but topic '{self._topic}' has the partitions "
                f"0 to {self._count - 1}."
            )
        return np.where(given, numbers, otherwise).astype(np.int32)
