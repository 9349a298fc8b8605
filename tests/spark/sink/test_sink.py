"""Kafka's own clients read the rows that Spark writes with `format("ottla")`."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Message, Producer

from ottla.testing import Broker
from tests.spark.consuming import consume as committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "key STRING, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, timestamp TIMESTAMP"


@pytest.fixture
def topic(ottla_broker: Broker) -> str:
    name = f"sink-{random.randrange(10**9)}"
    ottla_broker.create_topic(name, partitions=3)
    return name


def save(frame: DataFrame, broker: Broker, **options: str) -> None:
    given = {name.replace("__", "."): value for name, value in options.items()}
    frame.write.format("ottla").mode("append").option(
        "kafka.bootstrap.servers", broker.bootstrap_servers
    ).options(**given).save()


def consume(broker: Broker, topic: str, partitions: int = 3) -> list[Message]:
    return committed(broker.bootstrap_servers, topic, partitions)


def test_keys_values_nulls_headers_and_timestamps_arrive(
    spark: SparkSession, ottla_broker: Broker, topic: str
) -> None:
    at = datetime(2024, 5, 6, 7, 8, 9, 123_000, UTC)
    rows: list[Any] = [
        ("a", bytearray(b"\x00\xff"), [("h", bytearray(b"1")), ("h", None)], at),
        ("b", None, [], at),
        (None, bytearray(b"no key"), None, None),
    ]
    save(spark.createDataFrame(rows, SCHEMA), ottla_broker, topic=topic)
    found = {message.key(): message for message in consume(ottla_broker, topic)}
    assert found[b"a"].value() == b"\x00\xff"
    assert found[b"a"].headers() == [("h", b"1"), ("h", None)]
    assert found[b"a"].timestamp()[1] == found[b"b"].timestamp()[1] == round(at.timestamp() * 1000)
    assert (found[b"b"].value(), found[b"b"].headers()) == (None, None)
    assert found[None].value() == b"no key"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_partitions_are_those_of_java_in_every_codec(
    spark: SparkSession, ottla_broker: Broker, topic: str, codec: str
) -> None:
    frame = spark.range(2000).selectExpr("concat('key-', id) AS key", "CAST(id AS STRING) AS value")
    save(frame, ottla_broker, topic=topic, kafka__compression__type=codec)
    found = consume(ottla_broker, topic)
    assert sorted(int(message.value()) for message in found) == list(range(2000))

    # librdkafka's murmur2_random is Java's partitioner, and must choose the same partitions.
    twin = f"{topic}-twin"
    ottla_broker.create_topic(twin, partitions=3)
    producer = Producer(
        {"bootstrap.servers": ottla_broker.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for message in found:
        producer.produce(twin, key=message.key())
    producer.flush()
    places = {message.key(): message.partition() for message in found}
    assert {message.key(): message.partition() for message in consume(ottla_broker, twin)} == places


def test_columns_name_topic_and_partition(spark: SparkSession, ottla_broker: Broker, topic: str) -> None:
    frame = spark.range(30).selectExpr(
        f"'{topic}' AS topic", "CAST(id % 3 AS INT) AS partition", "CAST(id AS STRING) AS value"
    )
    save(frame, ottla_broker)
    assert all(int(m.value()) % 3 == m.partition() for m in consume(ottla_broker, topic))
    assert len(consume(ottla_broker, topic)) == 30


def test_what_was_written_is_read_back(spark: SparkSession, ottla_broker: Broker, topic: str) -> None:
    frame = spark.range(50_000).selectExpr(
        "CAST(CAST(id AS STRING) AS BINARY) AS key", "repeat('x', 200) AS value"
    )
    save(frame, ottla_broker, topic=topic, kafka__compression__type="lz4")
    read = (
        spark.read.format("ottla")
        .options(**{"kafka.bootstrap.servers": ottla_broker.bootstrap_servers, "subscribe": topic})
        .load()
    )
    assert read.select("key").distinct().count() == read.count() == 50_000


REFUSALS: dict[str, Callable[[DataFrame, Broker, str], Any]] = {
    "There is no column 'value' to write": lambda frame, broker, topic: save(
        frame.select("id"), broker, topic=topic
    ),
    "Column 'value' must be string or binary, not bigint": lambda frame, broker, topic: save(
        frame.selectExpr("id AS value"), broker, topic=topic
    ),
    r"Where to\? Name the topic": lambda frame, broker, topic: save(
        frame.selectExpr("CAST(id AS STRING) AS value"), broker
    ),
    "There is no option 'topik' for writing. Did you mean 'topic'": lambda frame, broker, topic: save(
        frame.selectExpr("CAST(id AS STRING) AS value"), broker, topik=topic
    ),
    "A row names partition 8, but topic '.*' has the partitions 0 to 2": lambda frame, broker, topic: save(
        frame.selectExpr("'x' AS value", "8 AS partition"), broker, topic=topic
    ),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_what_cannot_be_written_is_refused(
    spark: SparkSession, ottla_broker: Broker, topic: str, sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        REFUSALS[sentence](spark.range(3), ottla_broker, topic)


class Pipeline:
    """Source topic to sink topic, in upper case, with one checkpoint."""

    def __init__(self, spark: SparkSession, broker: Broker, sink: str, checkpoint: str) -> None:
        self._spark = spark
        self._broker = broker
        self._source = f"{sink}-source"
        self._sink = sink
        self._checkpoint = checkpoint
        broker.create_topic(self._source, partitions=2)

    def feed(self, first: int, last: int) -> None:
        for number in range(first, last):
            self._broker.produce(self._source, b"value-%d" % number, key=b"%d" % number, partition=number % 2)

    def run(self) -> None:
        """Process all available records."""
        servers = {"kafka.bootstrap.servers": self._broker.bootstrap_servers}
        reading = {"subscribe": self._source, "startingOffsets": "earliest", "includeHeaders": "true"}
        frame = self._spark.readStream.format("ottla").options(**servers, **reading).load()
        query = (
            frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value", "headers", "timestamp")
            .writeStream.format("ottla")
            .options(**servers, topic=self._sink, checkpointLocation=self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def written(self) -> list[tuple[bytes, bytes]]:
        return [(message.key(), message.value()) for message in consume(self._broker, self._sink)]

    def expected(self, last: int) -> set[tuple[bytes, bytes]]:
        return {(b"%d" % number, b"VALUE-%d" % number) for number in range(last)}


def test_a_streaming_query_that_is_restarted_goes_on_where_it_was(
    spark: SparkSession, ottla_broker: Broker, topic: str, checkpoint: str
) -> None:
    pipeline = Pipeline(spark, ottla_broker, topic, checkpoint)
    for last in (50, 100):
        pipeline.feed(last - 50, last)
        pipeline.run()
        assert len(pipeline.written()) == last
    assert set(pipeline.written()) == pipeline.expected(100)


def test_a_micro_batch_that_fails_is_written_again_by_the_next_run(
    spark: SparkSession, fresh_ottla_broker: Broker, checkpoint: str
) -> None:
    fresh_ottla_broker.create_topic("sink", partitions=3)
    pipeline = Pipeline(spark, fresh_ottla_broker, "sink", checkpoint)
    pipeline.feed(0, 50)
    pipeline.run()
    pipeline.feed(50, 100)
    fresh_ottla_broker.fail("Produce", "CLUSTER_AUTHORIZATION_FAILED")
    with pytest.raises(Exception, match="cannot be written: CLUSTER_AUTHORIZATION_FAILED"):
        pipeline.run()
    fresh_ottla_broker.clear_faults()
    pipeline.run()
    assert set(pipeline.written()) == pipeline.expected(100)
