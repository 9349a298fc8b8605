"""Promise: the sink writes to Apache Kafka like to Ottla."""

from __future__ import annotations

import uuid

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.produce import partition_of
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.spark.sink.sink_options import parse_sink_options
from ottla.spark.sink.task import write_rows

pytestmark = pytest.mark.peers

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COUNT = 500


@pytest.fixture
def bootstrap_servers(apache_kafka: str) -> str:
    return apache_kafka


def read(bootstrap_servers: str, topic: str, partitions: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "check"})
    try:
        assigned = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        wanted = sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in assigned)
        consumer.assign(assigned)
        found: list[Message] = []
        while len(found) < wanted:
            found += [message for message in consumer.consume(wanted - len(found), 30) if not message.error()]
        return found
    finally:
        consumer.close()


def test_rows_in_every_codec_and_a_topic_that_takes_small_batches(bootstrap_servers: str) -> None:
    topic = f"sink-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, 3, 1, config={"max.message.bytes": "3000"})])[topic].result(30)
    for codec in CODECS:
        rows = pa.record_batch(
            {
                "key": [f"{codec}-{number}" for number in range(COUNT)],
                "value": [b"%d" % number if number % 7 else None for number in range(COUNT)],
                "headers": pa.array([[{"key": "codec", "value": codec.encode()}]] * COUNT, HEADERS_TYPE),
            }
        )
        options = {
            "kafka.bootstrap.servers": bootstrap_servers,
            "topic": topic,
            "kafka.compression.type": codec,
        }
        assert write_rows(parse_sink_options(options), iter([rows])) == COUNT
    found = {message.key().decode(): message for message in read(bootstrap_servers, topic, 3)}
    assert len(found) == COUNT * len(CODECS)
    for key, message in found.items():
        codec, number = key.split("-")
        assert message.value() == (number.encode() if int(number) % 7 else None)
        assert message.headers() == [("codec", codec.encode())]
        assert message.partition() == partition_of(key.encode(), 3)


def test_a_topic_is_created_when_it_is_first_written_to(bootstrap_servers: str) -> None:
    topic = f"sink-{uuid.uuid4().hex[:12]}"
    options = parse_sink_options({"kafka.bootstrap.servers": bootstrap_servers, "topic": topic})
    write_rows(options, iter([pa.record_batch({"value": ["first"]})]))
    assert [message.value() for message in read(bootstrap_servers, topic, 1)] == [b"first"]
