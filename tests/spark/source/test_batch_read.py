"""Promise: a batch read returns exactly the produced records, with the columns of Spark's Kafka connector."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark_fixtures import Source

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def expect_error(source: Source, sentence: str, **options: object) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        source.batch(**options).collect()
    assert sentence in str(raised.value)


def test_columns_are_those_of_the_connector(source: Source, ottla_topic: str) -> None:
    assert source.batch(subscribe=ottla_topic).dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert source.batch(subscribe=ottla_topic, includeHeaders=True).dtypes[-1] == (
        "headers",
        "array<struct<key:string,value:binary>>",
    )


def test_a_record_with_everything_and_one_with_nothing(
    source: Source, ottla_broker: Broker, ottla_topic: str
) -> None:
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    ottla_broker.produce(ottla_topic, b"value", key=b"key", headers=headers, timestamp=1_700_000_000_123)
    ottla_broker.produce(ottla_topic, None, timestamp=0)
    [full, empty] = source.batch(subscribe=ottla_topic, includeHeaders=True).orderBy("offset").collect()
    assert (full.key, full.value, full.topic, full.partition) == (b"key", b"value", ottla_topic, 0)
    assert (full.offset, full.timestampType) == (0, 0)
    assert full.timestamp.astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert [(header.key, header.value) for header in full.headers] == headers
    assert (empty.key, empty.value, empty.offset, empty.headers) == (None, None, 1, None)


def test_timestamps_of_the_log(source: Source, ottla_broker: Broker) -> None:
    ottla_broker.create_topic("appended", config={"message.timestamp.type": "LogAppendTime"})
    ottla_broker.produce("appended", b"x", timestamp=5)
    [row] = source.batch(subscribe="appended").collect()
    assert row.timestampType == 1
    assert row.timestamp.year > 2000


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(source: Source, ottla_broker: Broker, codec: str) -> None:
    topic = f"codec-{codec}"
    ottla_broker.create_topic(topic, partitions=2)
    producer = Producer(
        {"bootstrap.servers": ottla_broker.bootstrap_servers, "compression.type": codec, "linger.ms": 20}
    )
    expected = {(number % 2, f"{codec} {number} " + "x" * (number % 300)) for number in range(2000)}
    for partition, value in expected:
        producer.produce(topic, value=value, key=None if partition else b"k", partition=partition)
    assert producer.flush(30) == 0
    rows = source.batch(subscribe=topic).collect()
    assert {(row.partition, row.value.decode()) for row in rows} == expected
    assert len(rows) == 2000
    assert {row.key for row in rows if row.partition} == {None}


@pytest.fixture
def numbers(ottla_broker: Broker, ottla_topic: str) -> str:
    """Ten records, a second apart."""
    for number in range(10):
        ottla_broker.produce(ottla_topic, b"%d" % number, timestamp=1000 * number)
    return ottla_topic


def test_ranges_of_offsets(source: Source, numbers: str) -> None:
    start, end = json.dumps({numbers: {"0": 3}}), json.dumps({numbers: {"0": 6}})
    assert source.values(subscribe=numbers, startingOffsets=start, endingOffsets=end) == ["3", "4", "5"]
    earliest, latest = json.dumps({numbers: {"0": -2}}), json.dumps({numbers: {"0": -1}})
    assert len(source.values(subscribe=numbers, startingOffsets=earliest, endingOffsets=latest)) == 10


def test_ranges_of_time(source: Source, numbers: str) -> None:
    between = source.values(subscribe=numbers, startingTimestamp=2500, endingTimestamp=5000)
    assert between == ["3", "4"]
    start = json.dumps({numbers: {"0": 8000}})
    assert source.values(subscribe=numbers, startingOffsetsByTimestamp=start) == ["8", "9"]
    end = json.dumps({numbers: {"0": 1000}})
    assert source.values(subscribe=numbers, endingOffsetsByTimestamp=end) == ["0"]


def test_a_time_that_nothing_has_reached(source: Source, numbers: str) -> None:
    expect_error(source, "is as young as startingTimestamp asks", subscribe=numbers, startingTimestamp=99_000)
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert source.values(subscribe=numbers, startingTimestamp=99_000, **latest) == []


def test_several_topics_by_name_by_pattern_and_by_partition(source: Source, ottla_broker: Broker) -> None:
    for topic in ("some-a", "some-b", "none"):
        ottla_broker.create_topic(topic, partitions=2)
        for partition in range(2):
            ottla_broker.produce(topic, f"{topic}-{partition}".encode(), partition=partition)
    four = ["some-a-0", "some-a-1", "some-b-0", "some-b-1"]
    assert source.values(subscribe="some-a,some-b") == four
    assert source.values(subscribePattern="some-.") == four
    assert source.values(assign='{"some-a": [1], "none": [0]}') == ["none-0", "some-a-1"]


def test_long_partitions_are_split_among_tasks(source: Source, numbers: str) -> None:
    split = source.batch(subscribe=numbers, minPartitions=4)
    assert split.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in split.collect()) == list(range(10))
    assert source.batch(subscribe=numbers, maxRecordsPerPartition=3).rdd.getNumPartitions() == 4


def test_an_empty_topic_has_no_rows(source: Source, ottla_topic: str) -> None:
    assert source.values(subscribe=ottla_topic) == []
    assert source.values(subscribePattern="no such topic") == []


def test_a_read_that_stops_early_and_the_next_one(source: Source, numbers: str) -> None:
    assert len(source.batch(subscribe=numbers).limit(2).collect()) == 2
    assert len(source.values(subscribe=numbers)) == 10


def test_faults_of_the_broker_do_not_show(spark: SparkSession, fresh_ottla_broker: Broker) -> None:
    from tests.spark_fixtures import Source

    fresh_ottla_broker.create_topic("t")
    for number in range(50):
        fresh_ottla_broker.produce("t", b"%d" % number)
    fresh_ottla_broker.drop("Fetch", times=2)
    fresh_ottla_broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2)
    source = Source(spark, fresh_ottla_broker.bootstrap_servers)
    assert source.values(subscribe="t") == [str(number) for number in range(50)]


def test_what_is_wrong_is_said_by_load(source: Source) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(
        PySparkException, match=r"There is no option 'subscribed'\. Did you mean 'subscribe'\?"
    ):
        source.batch(subscribed="t")
    with pytest.raises(PySparkException, match="Exactly one of assign, subscribe, subscribePattern"):
        source.batch(subscribe="t", subscribePattern="t")


def test_what_only_the_broker_knows_is_said_before_anything_runs(
    source: Source, spark: SparkSession, numbers: str
) -> None:
    from tests.spark_fixtures import Source

    expect_error(source, "Topic 'nowhere' does not exist at 127.0.0.1:", subscribe="nowhere")
    expect_error(source, "cannot be latest in a batch query", subscribe=numbers, startingOffsets="latest")
    lost = json.dumps({numbers: {"0": 99}})
    expect_error(source, "Offset 99 of", subscribe=numbers, endingOffsets=lost)
    assert len(source.values(subscribe=numbers, endingOffsets=lost, failOnDataLoss=False)) == 10
    nobody = Source(spark, "127.0.0.1:1")
    timeout = {"kafka__default__api__timeout__ms": 100}
    expect_error(nobody, "Cannot reach a broker at 127.0.0.1:1: is it running?", subscribe="t", **timeout)


def test_a_schema_of_your_own_is_refused(spark: SparkSession, source: Source, numbers: str) -> None:
    from pyspark.errors import PySparkException

    options = source.options({"subscribe": numbers})
    with pytest.raises(PySparkException, match=r"omit \.schema\(…\)"):
        spark.read.format("ottla").options(**options).schema("value STRING").load().collect()
