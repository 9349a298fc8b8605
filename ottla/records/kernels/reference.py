"""Kernels in plain Python: the reference for tests, and the fallback without numba."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.produce import partition_of
from ottla.protocol.batch_header import BATCH_OVERHEAD, corrupt
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import KafkaError
from ottla.protocol.record_format import Record, parse_records, write_records
from ottla.records.kernels.batches import Body, bodies
from ottla.records.kernels.record_columns import HEADERS_TYPE, RecordColumns
from ottla.records.kernels.sealing import Seal


def decode(
    data: Buffer,
    start: int,
    end: int,
    with_headers: bool,
    aborted: Sequence[tuple[int, int]] | None,
    check_crcs: bool,
) -> tuple[RecordColumns, int]:
    found, next_offset = bodies(data, start=start, end=end, aborted=aborted, check_crcs=check_crcs)
    return _columns(found, start, end, with_headers), next_offset


def _columns(found: list[Body], start: int, end: int, with_headers: bool) -> RecordColumns:
    records: list[Record] = []
    types: list[int] = []
    for body in found:
        for record in _records(body):
            if start <= record.offset < end:
                records.append(record)
                types.append(body.header.timestamp_type)
    return RecordColumns(
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([record.timestamp for record in records], pa.int64()),
        pa.array(types, pa.int32()),
        pa.array([_headers(record) for record in records], HEADERS_TYPE) if with_headers else None,
    )


def _records(body: Body) -> list[Record]:
    try:
        return parse_records(bytes(body.buffer[body.position : body.end]), body.header)
    except KafkaError as error:
        raise corrupt(
            f"a record of the batch at offset {body.header.base_offset} is broken: {error}"
        ) from None


def _headers(record: Record) -> list[dict[str, object]] | None:
    if not record.headers:
        return None
    return [{"key": _readable(key), "value": value} for key, value in record.headers]


def _readable(key: str) -> str:
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


Prepared = tuple[pa.Array | None, pa.Array | None, pa.Array | None]


def prepare(keys: pa.Array | None, values: pa.Array | None, headers: pa.Array | None) -> Prepared:
    return keys, values, headers


def encode(
    columns: Prepared, timestamps: Any, rows: Any, max_batch_bytes: int, seal: Seal
) -> list[bytearray]:
    batches: list[bytearray] = []
    waiting: list[Record] = []
    body = bytearray(BATCH_OVERHEAD)
    done = 0

    def close() -> None:
        nonlocal waiting, body, done
        largest = max(record.timestamp for record in waiting)
        batches.append(seal.close(body, len(waiting), waiting[0].timestamp, largest, done))
        done += len(waiting)
        waiting, body = [], bytearray(BATCH_OVERHEAD)

    listed = [_listed(column, rows) for column in columns]
    for key, value, pairs, time in zip(*listed, timestamps[rows].tolist(), strict=True):
        record = Record(0, time, _raw(key), _raw(value), _pairs(pairs))
        written = _written(record, waiting)
        if waiting and len(body) + len(written) > max_batch_bytes:
            close()
            written = _written(record, waiting)
        body += written
        waiting.append(record)
    if waiting:
        close()
    return batches


def _listed(column: pa.Array | None, rows: Any) -> list[Any]:
    return [None] * len(rows) if column is None else column.take(pa.array(rows)).to_pylist()


def _raw(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _pairs(pairs: list[dict[str, Any] | None] | None) -> list[tuple[str, bytes | None]]:
    result = []
    for pair in pairs or ():
        key, value = pair.values() if pair is not None else (None, None)
        if key is None:
            raise ValueError("a header has no key")
        result.append((key, value))
    return result


def _written(record: Record, before: list[Record]) -> bytes:
    record.offset = len(before)
    return write_records([record], 0, before[0].timestamp if before else record.timestamp)


def partition_for(keys: pa.Array, count: int) -> Any:
    return np.array(
        [-1 if key is None else partition_of(_raw(key) or b"", count) for key in keys.to_pylist()],
        np.int32,
    )


def rows_by_partition(partitions: Any) -> list[tuple[int, Any]]:
    found: dict[int, list[int]] = defaultdict(list)
    for row, partition in enumerate(partitions.tolist()):
        if partition < 0:
            raise ValueError("a row has no partition")
        found[partition].append(row)
    return [(partition, np.array(rows, np.uint64)) for partition, rows in sorted(found.items())]
