"""Promises of a sink task: every row is acknowledged, once and in order, despite failures."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla.client import cluster
from ottla.client.errors import ClientError
from ottla.client.produce import partition_of
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.spark.options import OptionError
from ottla.spark.sink.sink_options import parse_sink_options
from ottla.spark.sink.task import write_rows
from ottla.testing import Broker


@pytest.fixture(autouse=True)
def no_connections_left() -> Iterator[None]:
    """Close the connections that tasks leave open for the next task of the process."""
    yield
    while cluster._clusters:
        cluster._clusters.popitem()[1].close()


def write(broker: Broker, rows: pa.RecordBatch | Iterator[pa.RecordBatch], **options: str) -> int:
    parsed = parse_sink_options(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "kafka.retry.backoff.ms": "10",
            **{name.replace("__", "."): value for name, value in options.items()},
        }
    )
    return write_rows(parsed, iter([rows]) if isinstance(rows, pa.RecordBatch) else rows)


def numbers(first: int, last: int) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"%d" % number for number in range(first, last)]})


def values(broker: Broker, topic: str, partition: int = 0) -> list[Any]:
    return [record.value for record in broker.records(topic, partition)]


def test_every_column_arrives(ottla_broker: Broker, ottla_topic: str) -> None:
    at = datetime(2024, 5, 6, 7, 8, 9, 123_000, UTC)
    rows = pa.record_batch(
        {
            "key": pa.array(["é", None]),
            "value": pa.array([None, b"v"]),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None], HEADERS_TYPE
            ),
            "timestamp": pa.array([at, None], pa.timestamp("us", "UTC")),
            "offset": pa.array([1, 2]),
        }
    )
    assert write(ottla_broker, rows, topic=ottla_topic) == 2
    first, second = ottla_broker.records(ottla_topic)
    assert (first.key, first.value, list(first.headers)) == ("é".encode(), None, [("h", b"1"), ("h", None)])
    assert first.timestamp == round(at.timestamp() * 1000)
    assert (second.key, second.value, list(second.headers)) == (None, b"v", [])
    assert abs(second.timestamp - time.time() * 1000) < 60_000


def test_keys_go_by_murmur2_and_a_column_may_decide(ottla_broker: Broker) -> None:
    topic = f"placed-{random.random()}"
    ottla_broker.create_topic(topic, partitions=5)
    keys = [f"key-{number}" for number in range(50)]
    named = [4 if number % 10 == 0 else None for number in range(50)]
    rows = pa.record_batch({"key": keys, "value": keys, "partition": pa.array(named, pa.int32())})
    write(ottla_broker, rows, topic=topic)
    for partition in range(5):
        wanted = [
            key.encode()
            for key, name in zip(keys, named, strict=True)
            if (name if name is not None else partition_of(key.encode(), 5)) == partition
        ]
        assert values(ottla_broker, topic, partition) == wanted


def test_rows_without_a_key_go_round(ottla_broker: Broker) -> None:
    topic = f"round-{random.random()}"
    ottla_broker.create_topic(topic, partitions=3)
    write(ottla_broker, numbers(0, 9000), topic=topic)
    assert [len(values(ottla_broker, topic, partition)) for partition in range(3)] == [3000] * 3


def test_the_column_names_the_topic_unless_an_option_does(ottla_broker: Broker) -> None:
    one, two = f"one-{random.random()}", f"two-{random.random()}"
    rows = pa.record_batch({"topic": [one, two, one], "value": ["a", "b", "c"]})
    write(ottla_broker, rows)
    assert (values(ottla_broker, one), values(ottla_broker, two)) == ([b"a", b"c"], [b"b"])
    write(ottla_broker, rows, topic=two)
    assert values(ottla_broker, two) == [b"b", b"a", b"b", b"c"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_back(ottla_broker: Broker, ottla_topic: str, codec: str) -> None:
    write(ottla_broker, numbers(0, 1000), topic=ottla_topic, kafka__compression__type=codec)
    assert values(ottla_broker, ottla_topic) == [b"%d" % number for number in range(1000)]


def test_a_topic_that_takes_less_gets_smaller_batches(ottla_broker: Broker) -> None:
    topic = f"small-{random.random()}"
    ottla_broker.create_topic(topic, config={"max.message.bytes": "700"})
    write(ottla_broker, iter([numbers(0, 500), numbers(500, 900)]), topic=topic)
    assert values(ottla_broker, topic) == [b"%d" % number for number in range(900)]
    with pytest.raises(
        ClientError, match=rf"Partition {topic}-0 cannot be written \(a record of \d+ bytes: see max.message"
    ):
        write(ottla_broker, pa.record_batch({"value": [b"x" * 1000]}), topic=topic)


FAULTS = {
    "the request is lost": lambda broker: broker.drop("Produce"),
    "the answer is lost": lambda broker: broker.drop("Produce", after=True),
    "the leader has moved": lambda broker: broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER"),
    "replicas are missing": lambda broker: broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=3),
    "the producer is forgotten": lambda broker: broker.fail("Produce", "UNKNOWN_PRODUCER_ID"),
    "no producer id at first": lambda broker: broker.fail("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
    "no metadata at first": lambda broker: broker.drop("Metadata"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_are_written_once_and_in_order_though(fresh_ottla_broker: Broker, fault: str) -> None:
    fresh_ottla_broker.create_topic("orders", partitions=2)

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, 100, 10):
            if first == 30:
                FAULTS[fault](fresh_ottla_broker)
            yield pa.record_batch(
                {
                    "value": [b"%d" % number + b"." * 100_000 for number in range(first, first + 10)],
                    "partition": pa.array([number % 2 for number in range(first, first + 10)], pa.int32()),
                }
            )

    assert write(fresh_ottla_broker, rows(), topic="orders", kafka__batch__size="250000") == 100
    for partition in range(2):
        found = [int(value.rstrip(b".")) for value in values(fresh_ottla_broker, "orders", partition)]
        assert found == list(range(partition, 100, 2))


def test_a_broker_that_restarts_loses_nothing(fresh_ottla_broker: Broker) -> None:
    fresh_ottla_broker.create_topic("orders")

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, 100, 10):
            if first == 50:
                threading.Thread(target=fresh_ottla_broker.restart).start()
            yield pa.record_batch({"value": [b"%d" % n + b"." * 200_000 for n in range(first, first + 10)]})

    write(fresh_ottla_broker, rows(), topic="orders")
    found = [int(value.rstrip(b".")) for value in values(fresh_ottla_broker, "orders")]
    assert found == list(range(100))


def test_errors_name_the_partition(fresh_ottla_broker: Broker) -> None:
    fresh_ottla_broker.create_topic("orders")
    fresh_ottla_broker.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(ClientError, match="Partition orders-0 cannot be written: TOPIC_AUTHORIZATION_FAILED"):
        write(fresh_ottla_broker, numbers(0, 5), topic="orders")
    fresh_ottla_broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=1000)
    with pytest.raises(ClientError, match="Partition orders-0 cannot be written: NOT_ENOUGH_REPLICAS"):
        write(fresh_ottla_broker, numbers(0, 5), topic="orders", kafka__delivery__timeout__ms="300")
    fresh_ottla_broker.clear_faults()
    write(fresh_ottla_broker, numbers(0, 5), topic="orders")  # reuses the open connection
    assert len(values(fresh_ottla_broker, "orders")) == 5


def test_a_row_that_cannot_be_placed_is_one_sentence(ottla_broker: Broker, ottla_topic: str) -> None:
    far = pa.record_batch({"value": ["x"], "partition": pa.array([7], pa.int32())})
    with pytest.raises(
        OptionError, match=f"names partition 7, but topic '{ottla_topic}' has the partitions 0 to 0"
    ):
        write(ottla_broker, far, topic=ottla_topic)
    nowhere = pa.record_batch({"value": ["x", "y"], "topic": pa.array([ottla_topic, None], pa.string())})
    with pytest.raises(OptionError, match="A row has null as its topic"):
        write(ottla_broker, nowhere)


def test_a_topic_that_nobody_creates_is_one_sentence() -> None:
    with (
        Broker(config={"auto.create.topics.enable": "false"}) as broker,
        pytest.raises(ClientError, match="Topic 'nowhere' does not exist, and the broker did not create it"),
    ):
        write(broker, numbers(0, 1), topic="nowhere", kafka__max__block__ms="200")


def test_no_rows_need_no_broker() -> None:
    options = parse_sink_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"})
    assert write_rows(options, iter([numbers(0, 0)])) == 0
