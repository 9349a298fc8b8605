"""Columns of Spark's Kafka connector as Spark and Arrow types, and batches of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.client.cluster import TopicPartition

if TYPE_CHECKING:
    from ottla.records.kernels import RecordColumns
    from ottla.spark.source.source_options import SourceOptions

_ABOUT_THE_RECORD = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
_HEADERS_DDL = {"headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>"}

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", _TIMESTAMP),
    pa.field("timestampType", pa.int32()),
]

_SCHEMA = pa.schema(_FIELDS)
_SCHEMA_WITH_HEADERS = pa.schema([*_FIELDS, pa.field("headers", _HEADERS)])


def column_types(options: SourceOptions) -> dict[str, str]:
    typed = options.typed
    columns = {"key": typed.key.sql_type, "value": typed.value.sql_type, **_ABOUT_THE_RECORD}
    if options.include_headers:
        columns |= _HEADERS_DDL
    return columns | dict.fromkeys(typed.bad_columns, "BINARY")


#: Larger batches exceed the processor's caches, and smaller batches cost more calls.
_BATCH_BYTES = 4 << 20


class BatchBuilder:
    """Builds batches from the records of one partition."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._topics = pa.array([], pa.string())
        self._numbers = pa.array([], pa.int32())

    def batches(self, columns: RecordColumns) -> Iterator[pa.RecordBatch]:
        rows = len(columns.offsets)
        if rows == 0:
            return
        whole = self._batch(columns, rows)
        parts = math.ceil(whole.nbytes / _BATCH_BYTES)
        step = math.ceil(rows / parts)
        for first in range(0, rows, step):
            yield whole.slice(first, step)

    def _batch(self, columns: RecordColumns, rows: int) -> pa.RecordBatch:
        if len(self._topics) < rows:
            self._topics = pa.repeat(pa.scalar(self._partition.topic), rows)
            self._numbers = pa.repeat(pa.scalar(self._partition.partition, pa.int32()), rows)
        arrays = [
            columns.keys,
            columns.values,
            self._topics.slice(0, rows),
            self._numbers.slice(0, rows),
            columns.offsets,
            columns.timestamps.cast(_MILLISECONDS).cast(_TIMESTAMP),
            columns.timestamp_types,
        ]
        if columns.headers is None:
            return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
        return pa.RecordBatch.from_arrays(
            [*arrays, columns.headers.cast(_HEADERS)], schema=_SCHEMA_WITH_HEADERS
        )
