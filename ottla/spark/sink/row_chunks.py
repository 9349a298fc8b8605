"""Columns of the sink: those of Spark's Kafka connector, and timestamps.

Other columns are ignored. The driver checks types before anything runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TEXT_OR_BYTES = ("string", "binary")
HEADERS = "array<struct<key:string,value:binary>>"

#: Allowed Spark types of each column.
TYPES = {
    "key": TEXT_OR_BYTES,
    "value": TEXT_OR_BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS,),
    "timestamp": ("timestamp",),
}


def check_schema(
    schema: StructType, topic: str | None, partition_column: str | None = None, encoded: tuple[str, ...] = ()
) -> None:
    """Check the types of the columns. Columns in `encoded` may have any type."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    wanted = {name: types for name, types in TYPES.items() if name not in encoded}
    if partition_column is not None:
        if partition_column not in found:
            raise OptionError(
                f"There is no column '{partition_column}', which partitionColumn names, only {', '.join(found)}."
            )
        wanted.setdefault(partition_column, TEXT_OR_BYTES)
    for name, types in wanted.items():
        # Strings with a collation or a length count as strings.
        kind = found.get(name, types[0])
        if kind not in types and not (
            kind.startswith(("string ", "varchar(", "char(")) and "string" in types
        ):
            raise OptionError(f"Column '{name}' must be {' or '.join(types)}, not {kind}.")
    if "value" not in found:
        raise OptionError(f"There is no column 'value' to write, only {', '.join(found) or 'none'}.")
    if topic is None and "topic" not in found:
        raise OptionError("Where to? Name the topic with .option('topic', …), or have a column 'topic'.")


class Chunk(NamedTuple):
    """Rows by column. Missing columns are None."""

    keys: pa.Array | None
    values: pa.Array
    headers: pa.Array | None
    timestamps: pa.Array | None  # milliseconds
    partitions: pa.Array | None
    topics: pa.Array | None
    hashed: pa.Array | None  # determines the partition: the key, or the chosen column

    def take(self, rows: pa.Array) -> Chunk:
        return Chunk(*(None if column is None else column.take(rows) for column in self))


def chunk(batches: list[pa.RecordBatch], partition_column: str | None = None) -> Chunk:
    table = pa.Table.from_batches(batches).combine_chunks()

    def column(name: str) -> pa.Array | None:
        if name not in table.column_names:
            return None
        chunks = table.column(name).chunks
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)

    timestamps = column("timestamp")
    if timestamps is not None:
        zone = timestamps.type.tz
        timestamps = timestamps.cast(pa.timestamp("ms", zone), safe=False).cast(pa.int64())
    keys = column("key")
    return Chunk(
        keys,
        column("value"),
        column("headers"),
        timestamps,
        column("partition"),
        column("topic"),
        keys if partition_column is None else column(partition_column),
    )


def by_topic(rows: Chunk, topic: str | None) -> list[tuple[str, Chunk]]:
    """Group rows by topic. A topic from the options applies to all rows."""
    if topic is not None:
        return [(topic, rows)]
    topics = rows.topics
    if topics is None or topics.null_count:
        raise OptionError("A row has null as its topic: name the topic with .option('topic', …).")
    names = topics.unique().to_pylist()
    if len(names) == 1:
        return [(names[0], rows)]
    return [(name, rows.take(pc.indices_nonzero(pc.equal(topics, name)))) for name in names]
