"""Data source of a flow's query: each row is a range of offsets. The records themselves bypass Spark.

Planning and data-loss detection work as in `format("ottla")`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ottla.spark.data_source import OttlaDataSource, OttlaStreamReader
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.source_options import parse_options

FORMAT = "ottla-ranges"


class RangesDataSource(OttlaDataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        parse_options(self.options)
        return "topic string, partition int, start bigint, end bigint"

    def streamReader(self, schema: object) -> RangesStreamReader:
        return RangesStreamReader(parse_options(self.options, streaming=True))


class RangesStreamReader(OttlaStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        planned: OffsetRange = partition.value
        columns = {
            "topic": pa.array([planned.partition.topic], pa.string()),
            "partition": pa.array([planned.partition.partition], pa.int32()),
            "start": pa.array([planned.start], pa.int64()),
            "end": pa.array([planned.end], pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(columns)
