"""The link on Spark, with live producers and consumers."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client.cluster import Cluster
from ottla.mirror.link.promotion import promote
from ottla.mirror.link.settings import parse_link
from ottla.testing import Broker
from tests.broker.storage.test_disks import Disk
from tests.mirror.link.clusters import (
    LINK,
    log_bytes,
    produce,
    produce_one_by_one,
    restore_older_copy,
    settings,
)
from tests.mirror.records import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.mirror.link.mover import LinkMover

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as a, Broker() as b:
        yield a, b


@pytest.fixture
def started() -> Iterator[list[LinkMover]]:
    """Start movers, and stop all of them at the end."""
    movers: list[LinkMover] = []
    yield movers
    for each in movers:
        each.stop()


def mover(
    spark: SparkSession, pair: tuple[Broker, Broker], started: list[LinkMover], topics: str = "live"
) -> LinkMover:
    from ottla.mirror.link.mover import LinkMover

    properties = {
        "link.name": LINK,
        "clusters": "a, b",
        "a.bootstrap.servers": pair[0].bootstrap_servers,
        "b.bootstrap.servers": pair[1].bootstrap_servers,
        "a->b.enabled": "true",
        "topics": topics,
        "sync.group.offsets.interval.seconds": "1",
        "refresh.topics.interval.seconds": "1",
        "ottla.max.offsets.per.trigger": "5000",
    }
    made = LinkMover(spark, parse_link(properties))
    made.start()
    started.append(made)
    return made


def read(broker: Broker, count: int) -> list[bytes | None]:
    """Read as a member of the group `readers`, which continues at its committed offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    values: list[bytes | None] = []
    with closing(consumer):
        consumer.subscribe(["live"])
        while len(values) < count:
            message = consumer.poll(30)
            assert message is not None
            assert not message.error(), message.error()
            values.append(message.value())
        consumer.commit(asynchronous=False)
    return values


def test_a_group_moves_over_while_producers_write_and_movers_are_ended(
    spark: SparkSession, pair: tuple[Broker, Broker], started: list[LinkMover]
) -> None:
    a, b = pair
    a.create_topic("live")
    stopping, sent = threading.Event(), []

    def write() -> None:
        producer = Producer({"bootstrap.servers": a.bootstrap_servers, "enable.idempotence": True})
        while not stopping.wait(0.01):
            value = b"%d" % len(sent)
            producer.produce("live", value)
            sent.append(value)
            producer.flush(30)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        first = mover(spark, pair, started)
        until(lambda: first.status.state == "RUNNING", "the link runs")
        before = read(a, 200)
        until(lambda: len(log_bytes(b, "live")) > 0, "something was copied")
        first.stop()
        # Two at the same time do no harm.
        running = [mover(spark, pair, started), mover(spark, pair, started)]
        until(lambda: all(each.status.state == "RUNNING" for each in running), "both run")
    finally:
        stopping.set()
        writer.join()
    until(lambda: log_bytes(b, "live") == log_bytes(a, "live"), "the logs are the same")
    until(lambda: committed(b) == 200, "the offsets of the group were copied")
    for each in running:
        each.stop()
    with closing(Cluster(settings(a))) as source, closing(Cluster(settings(b))) as target:
        promote(source, target, LINK, target.topics(["live"])["live"])
    assert produce(b, "live", [b"own"]) == []
    assert before + read(b, len(sent) - 200 + 1) == [*sent, b"own"]


def committed(broker: Broker) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    with closing(consumer):
        [found] = consumer.committed([TopicPartition("live", 0)], 30)
    return int(found.offset)


def test_a_full_disk_is_shown_and_the_link_goes_on_with_room(
    spark: SparkSession,
    pair: tuple[Broker, Broker],
    started: list[LinkMover],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = pair
    a.create_topic("room")
    produce(a, "room", [b"first"])
    running = mover(spark, pair, started, "room")
    until(lambda: log_bytes(b, "room") == log_bytes(a, "room"), "the first record")
    disk = Disk(monkeypatch, b.data, errno.ENOSPC)
    produce(a, "room", [b"second"])
    until(lambda: running.status.state == "WAITING", "the link waits")
    assert "room-0 of the target cannot be written" in running.status.reason
    assert "No space left on device" in running.status.reason
    disk.broken = False
    until(lambda: running.status.state == "RUNNING", "it goes on")
    until(lambda: log_bytes(b, "room") == log_bytes(a, "room"), "both records")


def test_a_source_that_has_lost_records_stops_the_link_though_nobody_writes(
    spark: SparkSession, pair: tuple[Broker, Broker], started: list[LinkMover], tmp_path: Path
) -> None:
    _, b = pair
    with Broker(data=tmp_path) as source:
        source.create_topic("lost")
        produce_one_by_one(source, "lost", 10)
        running = mover(spark, (source, b), started, "lost")
        until(lambda: log_bytes(b, "lost") == log_bytes(source, "lost"), "all records")
        restore_older_copy(source, "lost", 6)
        until(lambda: running.status.state == "FAILED" and "lost-0" in running.status.reason, "the failure")
        assert "has lost offsets 6 to 9" in running.status.reason
        running.stop()
