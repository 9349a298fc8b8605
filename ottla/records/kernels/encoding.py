"""Encoding of columns into batches, and of keys into partitions, with the compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.protocol.batch_header import BATCH_OVERHEAD
from ottla.records.kernels import input_columns
from ottla.records.kernels.compiled_encode import fill_batch, fill_partitions, group_rows
from ottla.records.kernels.sealing import Seal

_START = np.uint64(BATCH_OVERHEAD)
_LARGEST_RECORD = (1 << 31) - 1 - BATCH_OVERHEAD


Prepared = tuple[input_columns.Strings, input_columns.Strings, input_columns.Headers]


def prepare(keys: pa.Array | None, values: pa.Array | None, headers: pa.Array | None) -> Prepared:
    return input_columns.strings(keys), input_columns.strings(values), input_columns.headers(headers)


def encode(
    columns: Prepared, timestamps: Any, rows: Any, max_batch_bytes: int, seal: Seal
) -> list[bytearray]:
    rows.flags.writeable = False
    batches: list[bytearray] = []
    room: Any = np.empty(max(max_batch_bytes, BATCH_OVERHEAD), np.uint8)
    done = 0
    while done < len(rows):
        count, end, max_timestamp, missing = fill_batch(
            room, _START, rows, np.uint64(done), timestamps, *columns
        )
        if not count:  # a record larger than the limit gets its own batch
            if missing > _LARGEST_RECORD:
                raise ValueError(f"a record of {missing} bytes is too large for Kafka")
            room = np.empty(BATCH_OVERHEAD + int(missing), np.uint8)
            continue
        base_timestamp = int(timestamps[rows[done]])
        batches.append(
            seal.close(memoryview(room)[: int(end)], int(count), base_timestamp, int(max_timestamp), done)
        )
        done += int(count)
        if len(room) > max_batch_bytes:
            room = np.empty(max(max_batch_bytes, BATCH_OVERHEAD), np.uint8)
    return batches


def partition_for(keys: pa.Array, count: int) -> Any:
    partitions: Any = np.empty(len(keys), np.int32)
    fill_partitions(input_columns.strings(keys), np.uint64(count), partitions)
    return partitions


def rows_by_partition(partitions: Any) -> list[tuple[int, Any]]:
    if not len(partitions):
        return []
    if partitions.min() < 0:
        raise ValueError("a row has no partition")
    ends: Any = np.zeros(int(partitions.max()) + 1, np.uint64)
    rows: Any = np.empty(len(partitions), np.uint64)
    group_rows(np.ascontiguousarray(partitions, np.int32), ends, rows)
    starts = [0, *ends[:-1].tolist()]
    return [
        (partition, rows[start:end])
        for partition, (start, end) in enumerate(zip(starts, ends.tolist(), strict=True))
        if end > start
    ]
