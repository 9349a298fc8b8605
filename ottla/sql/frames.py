"""Streams and tables as DataFrames: their columns, plus ROWTIME, ROWPARTITION and ROWOFFSET.

Unreadable records are skipped, as in ksqlDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.spark.formats.value_format import quoted
from ottla.sql.parsing.statements import ColumnDefinition
from ottla.sql.planning.json_expressions import MOMENTS, picked, raw_schema, text
from ottla.sql.planning.record_expressions import (
    Decoding,
    decode_key,
    decode_value,
    unframed,
    window_bounds,
)
from ottla.sql.registered.codecs import NONE, Codecs
from ottla.sql.registered.formats import REGISTERED, WITHOUT_REGISTRY
from ottla.sql.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.sql.pull.table_index import Found

_TYPED = ("JSON", *REGISTERED, WITHOUT_REGISTRY)

#: Hidden columns of every frame: the time as a Spark timestamp, and whether the record is a tombstone.
TIME = "__time"
DELETED = "__deleted"


def stream_frame(
    spark: SparkSession, source: Source, options: Mapping[str, str], starting: str, codecs: Codecs = NONE
) -> DataFrame:
    """Read every record of a stream, or every change of a table, as it arrives."""
    reader = spark.readStream.format("ottla").options(**options, **_options(source, codecs))
    return columns_of(reader.option("startingOffsets", starting).load(), source, codecs)


def batch_frame(
    spark: SparkSession, source: Source, options: Mapping[str, str], codecs: Codecs = NONE
) -> DataFrame:
    """Read all current records of a stream, or the latest record of each key of a table."""
    raw = spark.read.format("ottla").options(**options, **_options(source, codecs)).load()
    if source.kind == "TABLE":
        raw = latest_per_key(_readable(raw, source)).where("value IS NOT NULL")
    return columns_of(raw, source, codecs)


def found_frame(
    spark: SparkSession, source: Source, found: Sequence[Found], codecs: Codecs = NONE
) -> DataFrame:
    """Build a frame of these table records, as if read from the topic."""
    if _is_typed(source) and codecs.value is None:
        return columns_of(_decoded_here(spark, source, found), source, codecs)
    columns = "key BINARY, value BINARY, partition INT, offset BIGINT, milliseconds BIGINT"
    rows = [(each.raw, each.value, each.partition, each.offset, each.timestamp_ms) for each in found]
    return columns_of(_as_read(spark.createDataFrame(rows, columns), source, codecs), source, codecs)


def _decoded_here(spark: SparkSession, source: Source, found: Sequence[Found]) -> DataFrame:
    """Decode JSON with the decoder of the data source, which ignores the case of names."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from ottla.spark.formats.json_decoder import JsonDecoder
    from ottla.sql.pull.json_values import raw_type

    raw = pa.array([each.value for each in found], pa.binary())
    value = JsonDecoder(raw_type(source.values), "UTC", lax=True).decode(raw).column
    columns = {
        "key": pa.array([each.raw for each in found], pa.binary()),
        "value": value,
        "badValue": pc.if_else(value.is_valid(), pa.scalar(None, pa.binary()), raw),
        "partition": pa.array([each.partition for each in found], pa.int32()),
        "offset": pa.array([each.offset for each in found], pa.int64()),
        "milliseconds": pa.array([each.timestamp_ms for each in found], pa.int64()),
    }
    frame = spark.createDataFrame(pa.table(columns))
    return frame.selectExpr("key", "value", "badValue", *_others(source))


def _others(source: Source) -> list[str]:
    others = ["partition", "offset", "timestamp_millis(milliseconds) AS timestamp"]
    if source.headers:
        others.append("CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers")
    return others


def empty_frame(spark: SparkSession, source: Source, codecs: Codecs = NONE) -> DataFrame:
    """Build an empty frame to get its columns, without contacting brokers or starting Python workers."""
    raw = spark.range(0).selectExpr(
        *(f"CAST(NULL AS BINARY) AS {name}" for name in ("key", "value")),
        *("0 AS partition", "0L AS offset", "0L AS milliseconds"),
    )
    return columns_of(_as_read(raw, source, codecs), source, codecs)


def _as_read(raw: DataFrame, source: Source, codecs: Codecs) -> DataFrame:
    others = _others(source)
    if not _is_typed(source):
        return raw.selectExpr("key", "value", *others)
    if codecs.value is not None and codecs.value.is_binary:
        value = f"{codecs.value.decoder}(value)"
    else:
        written = "value" if codecs.value is None else unframed("value")
        value = f"from_json(CAST({written} AS STRING), {text(raw_schema(source.values))})"
    typed = raw.selectExpr("key", "value AS __raw", f"{value} AS value", *others)
    bad = "CASE WHEN value IS NULL THEN __raw END AS badValue"
    return typed.selectExpr("*", bad).drop("__raw")


def _is_typed(source: Source) -> bool:
    """Return True if the source decodes values itself. `value` is then a struct, and `badValue` holds bad bytes."""
    return source.value_format in _TYPED and bool(source.values) and not source.is_unwrapped


def _options(source: Source, codecs: Codecs) -> dict[str, str]:
    options = {"subscribe": source.topic}
    if source.headers:
        options["includeHeaders"] = "true"
    if _is_typed(source):
        form = "json" if codecs.value is None else codecs.value.kind
        if codecs.value is not None and codecs.value.is_binary:
            options |= codecs.value.options()
        else:
            options |= {"valueFormat": form, "valueSchema": raw_schema(source.values)}
            if form == "json":
                options["jsonNumbers"] = "lax"
        if source.value_format in REGISTERED:
            options |= codecs.registry
    return options


def _readable(raw: DataFrame, source: Source) -> DataFrame:
    return raw.where("badValue IS NULL") if _is_typed(source) else raw


def latest_per_key(raw: DataFrame) -> DataFrame:
    """Keep the last record of each key, including tombstones. Records without a key are dropped."""
    from pyspark.sql.functions import expr

    kept = [name for name in raw.columns if name != "key"]
    # All records of a key are in one partition, so the highest offset is the latest.
    latest = expr(f"max_by(struct({', '.join(kept)}), offset)").alias("latest")
    return raw.where("key IS NOT NULL").groupBy("key").agg(latest).select("key", "latest.*")


def columns_of(raw: DataFrame, source: Source, codecs: Codecs = NONE) -> DataFrame:
    key_of = "key"
    if source.window is not None:
        plain, start, end = window_bounds(source, "key")
        key_of = "__plain_key"
        raw = raw.selectExpr("*", f"{plain} AS {key_of}", f"{start} AS WINDOWSTART", f"{end} AS WINDOWEND")
    key = decode_key(source, key_of, "__k", codecs.key)
    if _is_typed(source):
        raw = _readable(raw, source)
        if codecs.value is not None and codecs.value.is_binary:
            value = Decoding(None, codecs.value.columns("value"), None)
        else:
            value = Decoding(
                None, {each.name: picked("value", each, source.values) for each in source.values}, None
            )
    else:
        value = decode_value(source, "value", "__v", codecs.value)
    for part, name in ((key, "__k"), (value, "__v")):
        if part.parsed is not None:
            raw = raw.selectExpr("*", f"{part.parsed} AS {name}")
        if part.valid is not None:
            raw = raw.where(part.valid)
    if source.kind == "TABLE":
        raw = raw.where("key IS NOT NULL")
    columns = [
        f"{expression} AS {quoted(name)}" for name, expression in (key.columns | value.columns).items()
    ]
    columns += [f"{_headers(column)} AS {quoted(column.name)}" for column in source.headers]
    frame = raw.selectExpr(
        *columns,
        *source.window_columns,
        "unix_millis(timestamp) AS __record_time",
        "partition AS ROWPARTITION",
        "offset AS ROWOFFSET",
        f"value IS NULL AS {DELETED}",
    )
    order = [quoted(column.name) for column in source.columns]
    row_time = f"{_row_time(source)} AS ROWTIME"
    frame = frame.selectExpr(*order, *source.window_columns, row_time, "ROWPARTITION", "ROWOFFSET", DELETED)
    return frame.where(f"ROWTIME BETWEEN 0 AND {MOMENTS[1]}").selectExpr(
        "*", f"timestamp_millis(ROWTIME) AS {TIME}"
    )


def _headers(column: ColumnDefinition) -> str:
    if column.header is None:
        return "coalesce(transform(headers, x -> named_struct('KEY', x.key, 'VALUE', x.value)), array())"
    return f"try_element_at(filter(headers, x -> x.key = {text(column.header)}), -1).value"


def _row_time(source: Source) -> str:
    if source.timestamp is None:
        return "__record_time"
    # A tombstone has a time but no columns.
    return f"CASE WHEN {DELETED} THEN __record_time ELSE {milliseconds_of(source)} END"


def milliseconds_of(source: Source) -> str:
    """Return SQL for the WITH (timestamp=…) column in milliseconds since 1970."""
    column = next(each for each in source.columns if each.name == source.timestamp)
    name = quoted(column.name)
    if column.type.name == "TIMESTAMP":
        return f"unix_millis({name})"
    if column.type.name == "STRING":
        form = f", {text(source.timestamp_format)}" if source.timestamp_format else ""
        return f"unix_millis(try_to_timestamp({name}{form}))"
    return f"CAST({name} AS BIGINT)"
