"""Topics as DataFrames with typed keys and values, and DataFrames as topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.spark import queries
from ottla.spark.formats import value_format as formats
from ottla.spark.formats.encryption_options import FIELDS, KEYS
from ottla.spark.formats.value_format import as_format
from ottla.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

#: Columns of `read_topic` that describe the source record. They are not written to another topic.
_ABOUT_THE_RECORD = ("topic", "partition", "offset", "timestampType", "badKey", "badValue")
#: Columns written along with the value.
_KEPT = ("headers", "timestamp")
_HEADERS = "array<struct<key:string,value:binary>>"
_NESTED = ("struct", "array", "map", "variant")


def read_topic(
    spark: SparkSession,
    topic: str,
    *,
    value: Any,
    key: Any = formats.text,
    stream: bool = True,
    starting: str = "earliest",
    bootstrap_servers: str | None = None,
    dead_letter: str | None = None,
    commit_group: str | None = None,
    decrypt_with: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read the records of a topic (or several, separated by commas), with keys and values decoded.

    The columns are key, value, topic, partition, offset and timestamp, and headers if `options` has includeHeaders.
    `value` and `key` are json(schema), avro(), protobuf(), jsonschema(), text or raw. An undecodable record has a null
    `value` and its bytes in `badValue`; with `dead_letter` such records go to that topic instead. `starting` takes the
    values of startingOffsets.
    With `decrypt_with`, such as "file:/etc/secrets/keys.json", values are decrypted first; undecryptable values are
    bad.
    """
    given = {
        "kafka.bootstrap.servers": queries.bootstrap_servers(spark, bootstrap_servers),
        "subscribe": topic,
        "startingOffsets": starting,
    }
    if commit_group is not None:
        given["ottla.commit.group"] = commit_group
    if dead_letter is not None:
        given["deadLetterTopic"] = dead_letter
    if decrypt_with is not None:
        given[KEYS] = decrypt_with
    for name, kind in (("key", as_format(key, "key")), ("value", as_format(value, "value"))):
        given |= kind.options(name)
        if kind.may_be_bad:
            given["timeZone"] = spark.conf.get("spark.sql.session.timeZone")
        if kind.name in formats.REGISTERED:
            given |= queries.registry_options(spark)
    given |= options or {}
    reader: Any = spark.readStream if stream else spark.read
    records: DataFrame = reader.format("ottla").options(**given).load()
    return records.drop("timestampType")


def to_topic(
    df: DataFrame,
    topic: str,
    *,
    key: str | Column | None = None,
    value: Any = None,
    key_format: Any = None,
    name: str | None = None,
    checkpoint: str | None = None,
    bootstrap_servers: str | None = None,
    trigger: str | None = None,
    output_mode: str = "append",
    encrypt_with: str | None = None,
    encrypt_fields: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> StreamingQuery | None:
    """Write a DataFrame to a topic. Return the running query of a stream; a batch is complete on return.

    `key` is a column and defaults to the column 'key', if present. `value` is a column too. It defaults to the column
    'value', or without one to all columns but the key as JSON. value=json always does the latter. value=avro()
    (protobuf(), jsonschema()) writes the column 'value', or all columns but the key, in that format. value=text and
    value=raw take the only remaining column. Structs, arrays and maps are written as JSON.
    With key_format=avro() (protobuf(), jsonschema()) the key is written in that format.
    With `encrypt_with`, such as "file:/etc/secrets/keys.json", values are encrypted, or only the JSON `encrypt_fields`.
    """
    given = {
        "kafka.bootstrap.servers": queries.bootstrap_servers(df.sparkSession, bootstrap_servers),
        "topic": topic,
    }
    if encrypt_with is not None:
        given[KEYS] = encrypt_with
    if encrypt_fields:
        given[FIELDS] = ",".join(encrypt_fields)
    if any(value is each for each in (formats.avro, formats.protobuf, formats.jsonschema)):
        value = as_format(value, "value")
    if isinstance(value, formats.Format) and value.name in formats.REGISTERED:
        given |= value.options("value") | queries.registry_options(df.sparkSession)
    if key_format is not None:
        key_format = as_format(key_format, "key_format")
        if key_format.name not in formats.REGISTERED:
            raise OptionError(
                "key_format is avro(), protobuf() or jsonschema(); other keys are text or bytes."
            )
        given |= key_format.options("key") | queries.registry_options(df.sparkSession)
    given |= options or {}
    partition_by = {name.lower(): text for name, text in given.items()}.get("partitioncolumn")
    rows = _encoded(df, key, value, partition_by, is_key_encoded=key_format is not None)
    if not df.isStreaming:
        rows.write.format("ottla").mode("append").options(**given).save()
        return None
    if output_mode == "update":  # Spark does not offer it to Python sinks
        from ottla.spark.sink.batches import write_batch

        place = queries.checkpoint_of(df.sparkSession, name or topic, checkpoint)

        def write(batch: DataFrame, number: int) -> None:
            write_batch(batch, given, batch_id=number, checkpoint=place)

        started = queries.start_batches(rows, write, name or topic, place, trigger, output_mode)
        return queries.note_output(started, topic)
    writer = rows.writeStream.format("ottla").outputMode(output_mode).options(**given)
    return queries.note_output(
        queries.start(writer, df.sparkSession, name or topic, checkpoint, trigger), topic
    )


def _encoded(
    df: DataFrame,
    key: str | Column | None,
    value: Any,
    partition_by: str | None,
    *,
    is_key_encoded: bool = False,
) -> DataFrame:
    """Return the sink's columns: key, value, and for forwarded records headers and timestamp.

    A column that determines the partition is passed to the sink unchanged.
    """
    if key is None and "key" in df.columns:
        key = "key"
    others = [name for name in df.columns if not (isinstance(key, str) and name == key)]
    if value is None and "value" in df.columns:
        value = "value"
        kept = [name for name in _KEPT if name in others and _is_kept(df, name)]
        lost = [name for name in others if name not in ("value", partition_by, *kept, *_ABOUT_THE_RECORD)]
        if lost:
            raise OptionError(
                f"Column '{lost[0]}' would be lost, because 'value' is written: drop it, or say value=json "
                "to write all columns."
            )
    else:
        kept = []
    if partition_by is not None and partition_by not in ("key", "value", *kept):
        kept.append(partition_by)
    if key is None and is_key_encoded:
        raise OptionError("There is no key to write in key_format: name its column with key=….")
    columns = []
    if key is not None:
        columns.append((_column(df, key) if is_key_encoded else _text_or_bytes(df, key)).alias("key"))
    return df.select(*columns, _value(df, value, others).alias("value"), *kept)


def _value(df: DataFrame, value: Any, others: list[str]) -> Column:
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    if isinstance(value, (str, Column)):
        return _text_or_bytes(df, value)
    if value is None or value is formats.json or getattr(value, "name", "") == "json":
        if not others:
            raise OptionError("No column is left for the value: only the key is there.")
        return F.to_json(F.struct(*(F.col(formats.quoted(name)) for name in others)))
    if isinstance(value, formats.Format) and value.name in formats.REGISTERED:
        if "value" in others:
            return F.col("value")
        return F.struct(*(F.col(formats.quoted(name)) for name in others))
    wanted = as_format(value, "value")
    if "value" in others:
        others = ["value"]
    if len(others) != 1:
        raise OptionError(
            f"value={wanted.name} takes one column, but there are {', '.join(others) or 'none'}. "
            "Choose one, as in value='text'."
        )
    return F.col(formats.quoted(others[0])).cast(wanted.sql_type)


def _column(df: DataFrame, column: str | Column) -> Column:
    from pyspark.sql import functions as F

    if not isinstance(column, str):
        return column
    if column not in df.columns:
        raise OptionError(f"There is no column '{column}', only {', '.join(df.columns)}.")
    return F.col(formats.quoted(column))


def _text_or_bytes(df: DataFrame, column: str | Column) -> Column:
    from pyspark.sql import functions as F

    column = _column(df, column)
    kind = df.select(column).schema[0].dataType.typeName()
    if kind in _NESTED:
        return F.to_json(column)
    return column if kind == "binary" else column.cast("string")


def _is_kept(df: DataFrame, name: str) -> bool:
    kind: str = df.schema[name].dataType.simpleString()
    return kind == (_HEADERS if name == "headers" else "timestamp")
