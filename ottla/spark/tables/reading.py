"""`read_table`: a table and the live tail of its topic as one DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.spark import queries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAREHOUSE = "spark.ottla.warehouse"
TABLES_FILE = "spark.ottla.tables.file"


def read_table(
    spark: SparkSession,
    topic: str,
    *,
    stream: bool = False,
    columns: Sequence[str] | None = None,
    as_of_offsets: Mapping[int, int] | None = None,
    as_of_timestamp: str | int | None = None,
    bootstrap_servers: str | None = None,
    warehouse: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the table of a topic and the records that the table does not have yet, each row exactly once.

    A stream has the table first, and then the topic. `columns` are read and decoded, and no others. With
    `as_of_offsets` or `as_of_timestamp` (milliseconds, or ISO 8601 with a time zone), later rows are left out.
    A table with write mode upsert has the latest row of each key, and no stream.
    """
    from ottla.spark.tables.table_source import TableDataSource
    from ottla.spark.tables.union import batch

    spark.dataSource.register(TableDataSource)
    given = {
        "kafka.bootstrap.servers": queries.bootstrap_servers(spark, bootstrap_servers),
        "topic": topic,
        **queries.registry_options(spark),
    }
    for name, value in (
        ("warehouse", warehouse or spark.conf.get(WAREHOUSE, None)),
        ("tablesFile", spark.conf.get(TABLES_FILE, None)),
        ("columns", ",".join(columns) if columns else None),
        ("asOfOffsets", None if as_of_offsets is None else json.dumps(dict(as_of_offsets))),
        ("asOfTimestamp", None if as_of_timestamp is None else str(as_of_timestamp)),
    ):
        if value is not None:
            given[name] = value
    given |= options or {}
    if stream:
        streamed: DataFrame = spark.readStream.format("ottla.table").options(**given).load()
        return streamed
    return batch(spark, given)
