"""Conversion between record batches and Arrow columns, used by Spark's source and sink.

numba compiles the loops over records. Without numba, a reference implementation in plain Python does the same, about
fifty times slower.
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

#: Kafka's default max.message.bytes without the room for the header.
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
    """Decode the records in [start, end) from every complete batch of a fetch. Return the columns and the next offset.

    The next offset is `start` if `data` holds no complete batch, and never exceeds `end`. Control batches are skipped.
    With `aborted`, a list of producer ids and first offsets as in FetchResponse, aborted transactions are skipped too.
    Raises KafkaError with CORRUPT_MESSAGE if a batch is corrupt.
    """
    result: tuple[RecordColumns, int] = decoding.decode(data, start, end, with_headers, aborted, check_crcs)
    return result


class Encoder:
    """Encodes selected rows of Arrow columns into record batches.

    Keys and values are strings or bytes, headers are lists of (key, value), and timestamps are in milliseconds. Columns
    are optional. A missing timestamp means the current time.
    """

    def __init__(
        self,
        keys: pa.Array | None,
        values: pa.Array | None,
        headers: pa.Array | None,
        timestamps: pa.Array | None,
        count: int | None = None,
    ) -> None:
        """Prepare the columns. `count` is the number of rows if every column is missing."""
        given = [column for column in (keys, values, headers, timestamps) if column is not None]
        self.count = len(given[0]) if given else count or 0
        if any(len(column) != self.count for column in given):
            raise ValueError("the columns have different lengths")
        #: Timestamp of each row in milliseconds.
        self.timestamps = input_columns.timestamps(timestamps, self.count, int(time.time() * 1000))
        self._columns = encoding.prepare(keys, values, headers)

    def encode(self, rows: Any, max_batch_bytes: int, seal: Seal) -> list[bytearray]:
        """Encode these rows, in order, into record batches ready for Produce. Sequence numbers continue across batches.

        No batch exceeds `max_batch_bytes` before compression, unless it holds a single record.
        """
        rows = np.ascontiguousarray(rows, np.uint64)
        if len(rows) and rows.max() >= self.count:
            raise IndexError(f"there is no row {rows.max()} among {self.count}")
        batches: list[bytearray] = encoding.encode(
            self._columns, self.timestamps, rows, max_batch_bytes, seal
        )
        return batches


def partition_for(keys: pa.Array, count: int) -> Any:
    """Return the partition of each key as int32, by Kafka's murmur2. Null keys get -1."""
    return encoding.partition_for(keys, count)


def rows_by_partition(partitions: Any) -> list[tuple[int, Any]]:
    """Return each partition that occurs and its rows, in order."""
    found: list[tuple[int, Any]] = encoding.rows_by_partition(partitions)
    return found
