"""Record batches to Arrow columns and back: what the source and the sink of Spark stand on.

The loops over records are compiled by numba. Where it is not installed the reference in plain Python does
the same, some fifty times slower.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.protocol.compression import Buffer
from ottla.records.kernels import input_columns
from ottla.records.kernels.record_columns import RecordColumns
from ottla.records.kernels.sealing import Seal

decoding: ModuleType
encoding: ModuleType
try:
    from ottla.records.kernels import decoding, encoding
except ModuleNotFoundError as error:
    if error.name != "numba":
        raise
    from ottla.records.kernels import reference as decoding
    from ottla.records.kernels import reference as encoding

__all__ = ["Encoder", "RecordColumns", "Seal", "decode", "partition_for", "rows_by_partition"]

#: What a broker takes by default: max.message.bytes is this and some room for the header.
MAX_BATCH_BYTES = 1 << 20


def decode(
    data: Buffer,
    *,
    start: int,
    end: int,
    with_headers: bool,
    aborted: Sequence[tuple[int, int]] | None = None,
    check_crcs: bool = True,
) -> tuple[RecordColumns, int]:
    """The records of [start, end) in every complete batch of a fetch, and the offset to go on with.

    That offset is `start` when `data` holds no complete batch, and never beyond `end`. Control batches are
    left out, and so are aborted transactions when `aborted` is given: producer ids and first offsets, as
    FetchResponse lists them. What is corrupt raises KafkaError with CORRUPT_MESSAGE.
    """
    result: tuple[RecordColumns, int] = decoding.decode(data, start, end, with_headers, aborted, check_crcs)
    return result


class Encoder:
    """Columns that are encoded in several parts, by their rows.

    Keys and values are strings or bytes, headers lists of (key, value), timestamps milliseconds. A column may be
    missing; a timestamp that is missing is now.
    """

    def __init__(
        self,
        keys: pa.Array | None,
        values: pa.Array | None,
        headers: pa.Array | None,
        timestamps: pa.Array | None,
        count: int | None = None,
    ) -> None:
        """`count` says how many rows there are when there is no column to tell."""
        given = [column for column in (keys, values, headers, timestamps) if column is not None]
        self.count = len(given[0]) if given else count or 0
        if any(len(column) != self.count for column in given):
            raise ValueError("the columns have different lengths")
        #: Milliseconds, of each row.
        self.timestamps = input_columns.timestamps(timestamps, self.count, int(time.time() * 1000))
        self._columns = encoding.prepare(keys, values, headers)

    def encode(self, rows: Any, max_batch_bytes: int, seal: Seal) -> list[bytearray]:
        """Record batches of these rows in their order, ready for Produce. Sequence numbers go on from batch to batch.

        No batch is larger than `max_batch_bytes` before it is compressed, unless it is a single record.
        """
        rows = np.ascontiguousarray(rows, np.uint64)
        if len(rows) and rows.max() >= self.count:
            raise IndexError(f"there is no row {rows.max()} among {self.count}")
        batches: list[bytearray] = encoding.encode(
            self._columns, self.timestamps, rows, max_batch_bytes, seal
        )
        return batches


def partition_for(keys: pa.Array, count: int) -> Any:
    """The partition of each key, an int32: Kafka's murmur2 over the bytes of the key. -1 for a null key."""
    return encoding.partition_for(keys, count)


def rows_by_partition(partitions: Any) -> list[tuple[int, Any]]:
    """Each partition that occurs, with its rows in their order."""
    found: list[tuple[int, Any]] = encoding.rows_by_partition(partitions)
    return found
