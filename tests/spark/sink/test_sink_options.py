"""Invalid options and columns of the sink are refused before anything runs, in a sentence that names them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from ottla.protocol.compression import Codec
from ottla.spark.options import OptionError
from ottla.spark.sink.row_chunks import check_schema
from ottla.spark.sink.sink_options import parse_sink_options
from ottla.spark.sink.writers import batch_writer, stream_writer

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def schema(columns: str) -> StructType:
    kinds: dict[str, Any] = {
        "string": "string",
        "binary": "binary",
        "int": "integer",
        "long": "long",
        "timestamp": "timestamp",
    }
    result = StructType()
    for column in columns.split(", "):
        name, kind = column.split(" ")
        result = result.add(name, kinds[kind])
    return result


def test_options_are_those_of_a_producer_in_any_case() -> None:
    parsed = parse_sink_options(
        {
            **SERVERS,
            "TOPIC": "orders",
            "kafka.compression.type": "ZSTD",
            "kafka.compression.zstd.level": "7",
            "kafka.batch.size": "5000",
            "kafka.acks": "1",
            "kafka.delivery.timeout.ms": "1500",
            "kafka.linger.ms": "5",
            "checkpointLocation": "somewhere",
        }
    )
    assert (parsed.topic, parsed.codec, parsed.level, parsed.batch_bytes) == ("orders", Codec.ZSTD, 7, 5000)
    assert (parsed.acks, parsed.idempotent, parsed.delivery_timeout) == (1, False, 1.5)
    assert parsed.settings.bootstrap == (("localhost", 9092),)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"kafka.bootstrap.servers": " "},
            "Option 'kafka.bootstrap.servers' is missing: where is the broker?",
        ),
        ({"topics": "a"}, "There is no option 'topics' for writing. Did you mean 'topic'?"),
        (
            {"kafka.compresion.type": "lz4"},
            "There is no option 'kafka.compresion.type' for writing. Did you mean 'kafka.compression.type'?",
        ),
        (
            {"kafka.compression.type": "rar"},
            "kafka.compression.type must be none, gzip, snappy, lz4 or zstd, not 'rar'.",
        ),
        ({"kafka.acks": "0"}, "kafka.acks must be all, -1 or 1, not '0'."),
        ({"kafka.batch.size": "many"}, "kafka.batch.size must be a whole number above 0, not 'many'."),
        (
            {"kafka.acks": "1", "kafka.enable.idempotence": "true"},
            "kafka.enable.idempotence=true needs kafka.acks=all.",
        ),
        (
            {"kafka.transactional.id": "x"},
            "Option 'kafka.transactional.id' cannot be used: with ottla.delivery=exactly-once each task has a name of "
            "its own.",
        ),
        (
            {"ottla.delivery": "at-most-once"},
            "ottla.delivery must be exactly-once or at-least-once, not 'at-most-once'.",
        ),
        (
            {"ottla.delivery": "exactly-once", "kafka.acks": "1"},
            "kafka.acks=1 cannot be exactly-once, which is how streams are written: omit it, or say "
            "ottla.delivery=at-least-once.",
        ),
        (
            {"ottla.delivery": "exactly-once", "kafka.enable.idempotence": "false"},
            "kafka.enable.idempotence=false cannot be exactly-once, which is how streams are written: omit it, "
            "or say ottla.delivery=at-least-once.",
        ),
        (
            {"kafka.transaction.timeout.ms": "1m"},
            "kafka.transaction.timeout.ms must be a whole number above 0, not '1m'.",
        ),
        ({"path": "x"}, "save() and start() take no path: name the topic with .option('topic', …)."),
        (
            {"topic": ""},
            "Option 'topic' is empty: name the topic, or omit it and have a column 'topic'.",
        ),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_sink_options({**SERVERS, **options})
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("columns", "topic", "sentence"),
    [
        ("key string", "t", "There is no column 'value' to write, only key."),
        ("value long", "t", "Column 'value' must be string or binary, not bigint."),
        ("value string, key int", "t", "Column 'key' must be string or binary, not int."),
        ("value string, partition long", "t", "Column 'partition' must be int, not bigint."),
        ("value string, topic binary", "t", "Column 'topic' must be string, not binary."),
        ("value string, timestamp long", "t", "Column 'timestamp' must be timestamp, not bigint."),
        (
            "value string, headers string",
            "t",
            "Column 'headers' must be array<struct<key:string,value:binary>>, not string.",
        ),
        (
            "value string",
            None,
            "Where to? Name the topic with .option('topic', …), or have a column 'topic'.",
        ),
    ],
)
def test_a_wrong_column_is_one_sentence(columns: str, topic: str | None, sentence: str) -> None:
    with pytest.raises(OptionError) as raised:
        check_schema(schema(columns), topic)
    assert str(raised.value) == sentence


def test_the_column_of_the_partition_must_be_there_and_have_bytes() -> None:
    with pytest.raises(OptionError) as raised:
        check_schema(schema("value string, key string"), "t", "user")
    assert str(raised.value) == "There is no column 'user', which partitionColumn names, only value, key."
    with pytest.raises(OptionError) as raised:
        check_schema(schema("value string, user long"), "t", "user")
    assert str(raised.value) == "Column 'user' must be string or binary, not bigint."
    check_schema(schema("value string, user string"), "t", "user")


def test_streams_are_exactly_once_and_batches_only_if_asked() -> None:
    options = {**SERVERS, "topic": "t"}
    assert parse_sink_options(options, streaming=True).exactly_once
    assert not parse_sink_options(options).exactly_once
    assert not parse_sink_options({**options, "ottla.delivery": "at-least-once"}, streaming=True).exactly_once
    with pytest.raises(OptionError, match=r"kafka\.acks=1 cannot be exactly-once"):
        stream_writer({**options, "kafka.acks": "1"}, schema("value string"), False)


def test_other_columns_are_left_alone() -> None:
    check_schema(schema("value string, topic string, offset long, timestampType int, extra long"), None)


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(OptionError, match="A topic cannot be overwritten"):
        batch_writer({**SERVERS, "topic": "t"}, schema("value string"), True)
    stream_writer({**SERVERS, "topic": "t"}, schema("value string"), True)
