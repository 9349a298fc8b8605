"""`format("ottla")`: the interface for Spark, in the driver and in workers. `source/` reads, `sink/` writes.

Spark starts one process to create the source, one to plan each stream, and one to plan each read. Tasks import the
compilers and decoders only when needed, because these imports dominate the start of such a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client.cluster import shared_cluster
from ottla.spark.options import OptionError
from ottla.spark.source.connector_columns import column_types
from ottla.spark.source.partition_planning import plan_batch
from ottla.spark.source.ranges import OffsetRange, offsets_from_json, offsets_to_json
from ottla.spark.source.source_options import SourceOptions, parse_options
from ottla.spark.source.stream_offsets import StreamOffsets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ottla.spark.sink.writers import OttlaStreamWriter, OttlaWriter

JsonOffsets = dict[str, dict[str, int]]


class OttlaDataSource(DataSource):
    """Topics of any Kafka-compatible broker, with the options of Spark's Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        # load() calls this first, so it refuses bad options before anything runs.
        columns = column_types(parse_options(self.options))
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> OttlaReader:
        options = parse_options(self.options, streaming=False)
        return OttlaReader(_with_types(options, schema))

    def streamReader(self, schema: StructType) -> OttlaStreamReader:
        options = parse_options(self.options, streaming=True)
        return OttlaStreamReader(_with_types(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> OttlaWriter:
        from ottla.spark.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:
        from ottla.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)


class RangePartition(InputPartition):
    """Range of offsets for one task."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)


class OttlaReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        with shared_cluster(self._options.settings) as cluster:
            return [RangePartition(each) for each in plan_batch(cluster, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ottla.spark.source.range_reader import current_range, read_range

        if partition.value is None:  # Spark plans one task even without data
            return iter(())
        wanted: OffsetRange = partition.value
        if self._options.follow:
            wanted = current_range(self._options, wanted)
        return read_range(self._options, wanted)


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark creates two readers: one plans micro-batches in the driver, the other is pickled for `read` in tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._held: StreamOffsets | None = None

    @property
    def _offsets(self) -> StreamOffsets:
        if self._held is None:
            self._held = StreamOffsets(self._options)
        return self._held

    def initialOffset(self) -> JsonOffsets:
        return offsets_to_json(self._offsets.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark accepts one limit. Either is enough, because `latestOffset` applies both.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        limited = not isinstance(limit, ReadAllAvailable)
        return offsets_to_json(self._offsets.next_end(offsets_from_json(start), limited=limited))

    def prepareForTriggerAvailableNow(self) -> None:
        self._offsets.stop_at_latest()

    def reportLatestOffset(self) -> JsonOffsets | None:
        latest = self._offsets.latest
        return None if latest is None else offsets_to_json(latest)

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        ranges = self._offsets.ranges(offsets_from_json(start), offsets_from_json(end))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from ottla.spark.source.range_reader import read_range

        return read_range(self._options, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing.

        Spark calls this one batch late and never for the last; `latestOffset` commits to the group instead.
        """

    def stop(self) -> None:
        if self._held is not None:
            self._held.close()


def _with_types(options: SourceOptions, schema: StructType) -> SourceOptions:
    """Refuse a .schema(…) that changes the columns, and keep the types that Spark parsed from the options."""
    expected = list(column_types(options))
    if schema.fieldNames() != expected:
        raise OptionError(f"The columns are always {', '.join(expected)}: omit .schema(…).")
    return replace(options, typed=options.typed.with_types(schema))
