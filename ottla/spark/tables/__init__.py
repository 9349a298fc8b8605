"""Tables: the latest values of a topic, and DataFrames kept in Parquet, Delta or a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark import queries
from ottla.spark.formats import value_format as formats
from ottla.spark.options import OptionError
from ottla.spark.tables.delta import Delta
from ottla.spark.tables.jdbc import Jdbc
from ottla.spark.topics import read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_OUTPUT_MODES = {"append": "append", "upsert": "update", "overwrite": "complete"}


def table(
    spark: SparkSession,
    topic: str,
    *,
    value: Any,
    key: Any = formats.text,
    stream: bool = False,
    follow: bool = False,
    bootstrap_servers: str | None = None,
    dead_letter: str | None = None,
    commit_group: str | None = None,
    decrypt_with: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the latest record of each key, like Kafka's compaction, with the columns of `read_topic`.

    A batch has one row per key, and none for keys whose last record is a tombstone. Spark plans it once: a stream
    joined with it sees the table of its first micro-batch. With `follow`, each micro-batch reads the whole topic again
    and sees the current table.

    A stream is a streaming aggregation. In output mode update each micro-batch has the changed keys, in complete all
    keys. A key whose last record is a tombstone has a null value and stays in the state. A key in two partitions has a
    row for each.
    """
    from pyspark.sql import functions as F

    if follow and stream:
        raise OptionError("A table with stream=True follows its topic anyway: omit follow=True.")
    records = read_topic(
        spark,
        topic,
        value=value,
        key=key,
        stream=stream,
        bootstrap_servers=bootstrap_servers,
        dead_letter=dead_letter,
        commit_group=commit_group,
        decrypt_with=decrypt_with,
        options={**({"endingOffsets": "current"} if follow else {}), **(options or {})},
    ).where("key IS NOT NULL")
    others = [name for name in records.columns if name not in ("key", "topic", "partition")]
    latest = (
        records.groupBy("key", "topic", "partition")
        .agg(F.max_by(F.struct(*others), "offset").alias("latest"))
        .select("key", "latest.*", "topic", "partition")
        .select(*records.columns)
    )
    if stream:
        return latest
    # After partitions were added, a key may have moved to another one. The later record wins.
    youngest = (
        latest.groupBy("key")
        .agg(F.max_by(F.struct(*records.columns[1:]), F.struct("timestamp", "offset")).alias("latest"))
        .select("key", "latest.*")
    )
    present = "value IS NOT NULL" + (" OR badValue IS NOT NULL" if "badValue" in records.columns else "")
    return youngest.where(present)


@dataclass(frozen=True)
class Parquet:
    path: str
    partition_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return queries.last_part(self.path)


def parquet(path: str, partition_by: Sequence[str] = ()) -> Parquet:
    """Describe a directory of Parquet files. Readers that use Spark see each row exactly once."""
    return Parquet(path, tuple(partition_by))


def delta(
    path: str, *, mode: str = "append", key: Sequence[str] = (), partition_by: Sequence[str] = ()
) -> Delta:
    """Describe a Delta table, written by the deltalake package in the driver: each micro-batch exactly once."""
    _check_mode(mode, key)
    return Delta(path, mode, tuple(key), tuple(partition_by))


def jdbc(
    url: str,
    table: str,
    *,
    mode: str = "append",
    key: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> Jdbc:
    """Describe a database table. Appended rows may occur twice after a failure; mode='upsert' prevents that."""
    _check_mode(mode, key)
    return Jdbc(url, table, mode, tuple(key), dict(properties or {}))


def to_table(
    df: DataFrame,
    target: Parquet | Delta | Jdbc,
    *,
    name: str | None = None,
    checkpoint: str | None = None,
    trigger: str | None = None,
    output_mode: str | None = None,
) -> StreamingQuery | None:
    """Write a DataFrame to parquet(…), delta(…) or jdbc(…). Return the running query of a stream.

    The target determines the output mode: append, update for upsert, and complete for overwrite.
    """
    name = name or target.name
    if isinstance(target, Parquet):
        if not df.isStreaming:
            df.write.mode("append").partitionBy(*target.partition_by).parquet(target.path)
            return None
        writer = df.writeStream.outputMode(output_mode or "append").format("parquet")
        if target.partition_by:
            writer = writer.partitionBy(*target.partition_by)
        return queries.start(writer.option("path", target.path), df.sparkSession, name, checkpoint, trigger)
    target.check()
    if not df.isStreaming:
        target.write(df)
        return None
    mode = output_mode or _OUTPUT_MODES[target.mode]
    return queries.start_batches(df, target.write, name, checkpoint, trigger, mode)


def _check_mode(mode: str, key: Sequence[str]) -> None:
    if mode not in _OUTPUT_MODES:
        raise OptionError(f"mode must be {', '.join(_OUTPUT_MODES)}, not '{mode}'.")
    if mode == "upsert" and not key:
        raise OptionError("mode='upsert' needs key=[…] with the columns that identify a row.")
    if key and mode != "upsert":
        raise OptionError(f"key=… is for mode='upsert', not for mode='{mode}'.")
