"""Promise: a task reads every record of its range despite broker failures, or names the missing ones."""

from __future__ import annotations

import logging
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from ottla.client.cluster import TopicPartition
from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.spark.source import range_reader
from ottla.spark.source.data_loss import DataLoss
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.source_options import parse_options
from ottla.testing import Broker

TOPIC = "orders"


@pytest.fixture
def broker(fresh_ottla_broker: Broker) -> Broker:
    fresh_ottla_broker.create_topic(TOPIC)
    for number in range(20):
        fresh_ottla_broker.produce(TOPIC, b"%d" % number)
    return fresh_ottla_broker


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "_PATIENCE", 0.3)


def read(broker: Broker, start: int, end: int, **more: Any) -> list[int]:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": TOPIC,
        "kafka.retry.backoff.ms": "10",
        "kafka.fetch.max.wait.ms": "50",
        "kafka.max.partition.fetch.bytes": "300",  # a few records
        **{name.replace("__", "."): str(value) for name, value in more.items()},
    }
    wanted = OffsetRange(TopicPartition(TOPIC, 0), start, end)
    batches = range_reader.read_range(parse_options(options), wanted)
    return [int(value.as_py()) for batch in batches for value in batch["value"]]


def delete_records_before(broker: Broker, offset: int) -> None:
    from confluent_kafka import TopicPartition as Until
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([Until(TOPIC, 0, offset)]).values():
        future.result(10)


def test_all_of_a_range_and_nothing_else(broker: Broker) -> None:
    assert read(broker, 0, 20) == list(range(20))
    assert read(broker, 7, 9) == [7, 8]


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR],
)
def test_errors_that_pass_are_waited_out(broker: Broker, error: ErrorCode) -> None:
    broker.fail("Fetch", error, times=3)
    assert read(broker, 0, 20) == list(range(20))


def test_lost_connections_cost_no_record_and_give_none_twice(broker: Broker) -> None:
    broker.drop("Fetch", times=2)
    broker.drop("Fetch", times=2, after=True)
    assert read(broker, 0, 20) == list(range(20))


def test_a_restart_in_the_middle(broker: Broker) -> None:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": TOPIC,
        "kafka.max.partition.fetch.bytes": "300",
    }
    batches = range_reader.read_range(parse_options(options), OffsetRange(TopicPartition(TOPIC, 0), 0, 20))
    found = [int(value.as_py()) for value in next(batches)["value"]]
    broker.restart()
    found += [int(value.as_py()) for batch in batches for value in batch["value"]]
    assert found == list(range(20))


def test_a_reader_that_stops_early_leaves_a_usable_connection(broker: Broker) -> None:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": TOPIC,
        "kafka.max.partition.fetch.bytes": "300",
    }
    batches = range_reader.read_range(parse_options(options), OffsetRange(TopicPartition(TOPIC, 0), 0, 20))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert read(broker, 0, 20) == list(range(20))


def test_a_broker_that_stays_away_is_an_error(broker: Broker) -> None:
    broker.fail("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=10_000)
    with pytest.raises(ClientError, match="Partition orders-0 cannot be read: NOT_LEADER_OR_FOLLOWER"):
        read(broker, 0, 20, kafkaConsumer__pollTimeoutMs=300)


def test_what_retention_took_is_an_error(broker: Broker) -> None:
    delete_records_before(broker, 8)
    with pytest.raises(
        DataLoss, match=r"^Offsets 5 to 7 of orders-0 cannot be read: the partition starts at 8\. Some"
    ):
        read(broker, 5, 20)


def test_or_is_passed_over_and_logged(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    delete_records_before(broker, 8)
    with caplog.at_level(logging.WARNING):
        assert read(broker, 5, 20, failOnDataLoss="false") == list(range(8, 20))
        assert read(broker, 5, 7, failOnDataLoss="false") == []
    assert "Offsets 5 to 7 of orders-0" in caplog.text
    assert "Offsets 5 to 6 of orders-0" in caplog.text


@pytest.mark.parametrize(("start", "lost"), [(15, 20), (30, 30)])
def test_a_partition_that_ends_too_early_is_an_error(broker: Broker, start: int, lost: int) -> None:
    with pytest.raises(
        DataLoss, match=f"Offsets {lost} to 39 of orders-0 cannot be read: the partition ends at 20"
    ):
        read(broker, start, 40)
    assert read(broker, start, 40, failOnDataLoss="false") == list(range(start, 20))


def test_a_deleted_topic_is_an_error(broker: Broker) -> None:
    broker.delete_topic(TOPIC)
    with pytest.raises(
        DataLoss, match="Offsets 0 to 19 of orders-0 cannot be read: the topic or the partition was"
    ):
        read(broker, 0, 20)
    assert read(broker, 0, 20, failOnDataLoss="false") == []
