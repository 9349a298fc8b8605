"""`format("ottla")` for writing, in batches and in streams: what the data source returns to Spark.

Rows are written at least once: every one is acknowledged by all in-sync replicas before its task ends, and a task or
a micro-batch that is run again writes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.spark.option_names import OptionError
from ottla.spark.sink_columns import check_schema
from ottla.spark.sink_options import SinkOptions, parse_sink_options
from ottla.spark.sink_task import write_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> OttlaWriter:
    if overwrite:
        raise OptionError("A topic cannot be overwritten: use .mode('append').")
    return OttlaWriter(_checked(options, schema))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> OttlaStreamWriter:
    """`overwrite` is output mode complete, of which each batch is appended, as by Spark's Kafka connector."""
    return OttlaStreamWriter(_checked(options, schema))


def _checked(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    parsed = parse_sink_options(options)
    check_schema(schema, parsed.topic)
    return parsed


@dataclass
class Written(WriterCommitMessage):
    rows: int


class OttlaWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return Written(write_rows(self._options, iterator))


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return Written(write_rows(self._options, iterator))

    # There is nothing left to do in the driver: what a task has written is written.

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None: ...

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None: ...
