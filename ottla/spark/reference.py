"""The kernels in plain Python: what they are tested against, and what runs where numba is missing."""

from __future__ import annotations

import pyarrow as pa

from ottla.protocol.batch_header import corrupt
from ottla.protocol.errors import KafkaError
from ottla.protocol.record_format import Record, parse_records
from ottla.spark.batches import Body
from ottla.spark.record_columns import HEADERS_TYPE, RecordColumns


def columns(found: list[Body], start: int, end: int, with_headers: bool) -> RecordColumns:
    """The records of [start, end) in these bodies, as columns."""
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
