"""Promise: the source reads Apache Kafka like Ottla."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.peers

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def bootstrap_servers(apache_kafka: str) -> str:
    return apache_kafka


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    name = f"spark-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    yield name
    admin.delete_topics([name])[name].result(30)


def produce(bootstrap_servers: str, topic: str, codec: str, count: int) -> set[tuple[int, str]]:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 20})
    records = {(number % 2, f"{codec}-{number}") for number in range(count)}
    for partition, value in records:
        producer.produce(topic, value=value, headers=[("codec", codec.encode())], partition=partition)
    assert producer.flush(30) == 0
    return records


def test_batches_of_every_codec(spark: SparkSession, bootstrap_servers: str, topic: str) -> None:
    expected = set[tuple[int, str]]()
    for codec in CODECS:
        expected |= produce(bootstrap_servers, topic, codec, 300)
    options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, "includeHeaders": "true"}
    rows = spark.read.format("ottla").options(**options).load().collect()
    assert len(rows) == 1500
    assert {(row.partition, row.value.decode()) for row in rows} == expected
    assert all(row.value.decode().startswith(row.headers[0].value.decode()) for row in rows)


def test_only_committed_records_where_that_is_asked(
    spark: SparkSession, bootstrap_servers: str, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for commit in (True, False, True):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, value=f"{commit}-{number}", partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
    everything = spark.read.format("ottla").options(**options).load()
    assert everything.count() == 30
    options["kafka.isolation.level"] = "read_committed"
    committed = spark.read.format("ottla").options(**options).load().collect()
    assert {row.value.decode().split("-")[0] for row in committed} == {"True"}
    assert len(committed) == 20


def test_a_stream_with_its_lag(
    spark: SparkSession, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.group.id": topic,
        "maxOffsetsPerTrigger": "70",
    }
    counts = []
    for _ in range(2):
        produce(bootstrap_servers, topic, "lz4", 100)
        stream = spark.readStream.format("ottla").options(**options).load()
        query = (
            stream.writeStream.foreachBatch(lambda rows, number: counts.append(rows.count()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert sum(counts) == 200
    assert max(counts) <= 70
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": topic})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=20)
    consumer.close()
    assert [each.offset for each in committed] == [100, 100]
