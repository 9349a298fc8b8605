"""Which partition each row goes to: the one it names, the one of its key, or the next in turn."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.records import kernels
from ottla.spark.options import OptionError

#: Rows without a key share a partition in runs of at least so many, because large batches are cheap ones.
_RUN = 1000


class Partitioner:
    """For one topic. Rows without a key go round robin, from a partition that is chosen at random."""

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
        """Where the column has null, the key decides."""
        given = named.is_valid().to_numpy(zero_copy_only=False)
        numbers = named.fill_null(0).to_numpy(zero_copy_only=False)
        wrong = numbers[(numbers < 0) | (numbers >= self._count)]
        if len(wrong):
            raise OptionError(
                f"A row names partition {wrong[0]}, but topic '{self._topic}' has the partitions "
                f"0 to {self._count - 1}."
            )
        return np.where(given, numbers, otherwise).astype(np.int32)
