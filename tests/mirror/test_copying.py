"""Two clusters and a mirror between them: copied records, translated groups, and errors."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.mirror import formats
from ottla.testing import Broker
from tests.broker.storage.test_disks import Disk
from tests.mirror.records import create, rows, until, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.mirror.mirror_maker import MirrorMaker


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as a, Broker() as b:
        yield a, b


@pytest.fixture
def mirror(spark: SparkSession, clusters: tuple[Broker, Broker]) -> Iterator[Callable[..., MirrorMaker]]:
    from ottla.mirror.mirror_maker import MirrorMaker
    from ottla.mirror.settings import parse_flows

    running = []

    def start(topics: str, **more: str) -> MirrorMaker:
        a, b = clusters
        properties = {
            "clusters": "A, B",
            "A.bootstrap.servers": a.bootstrap_servers,
            "B.bootstrap.servers": b.bootstrap_servers,
            "A->B.enabled": "true",
            "A->B.topics": topics,
            "replication.factor": "1",
            "emit.heartbeats.enabled": "false",
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
        }
        made = MirrorMaker(spark, parse_flows(properties | more))
        made.start()
        running.append(made)
        return made

    yield start
    for made in running:
        made.stop()


def test_records_arrive_as_they_are_and_aborted_ones_do_not(
    clusters: tuple[Broker, Broker], mirror: Callable[..., MirrorMaker]
) -> None:
    a, b = clusters
    create(a, "plain", 2)
    large = Producer(
        {
            "bootstrap.servers": a.bootstrap_servers,
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 900_000,
        }
    )
    for number in range(3000):
        large.produce(
            "plain",
            f"v{number}".encode() * 50,
            f"k{number}".encode(),
            0,
            headers=[("h", b"x")],
            timestamp=1 + number,
        )
    large.flush()
    transactional = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "t"})
    transactional.init_transactions()
    for number in range(20):
        transactional.begin_transaction()
        transactional.produce("plain", f"t{number}".encode(), None, number % 2)
        transactional.flush()
        if number % 3:
            transactional.commit_transaction()
        else:
            transactional.abort_transaction()
    mirror("plain")
    for partition in (0, 1):
        expected = values(a, "plain", partition)
        until(
            lambda p=partition, e=expected: values(b, "A.plain", p) == e, f"partition {partition} of A.plain"
        )


def test_it_goes_on_where_it_was_and_writes_nothing_twice(
    clusters: tuple[Broker, Broker], mirror: Callable[..., MirrorMaker]
) -> None:
    a, b = clusters
    create(a, "again")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers})
    for part in range(3):
        for number in range(100):
            producer.produce("again", f"{part}-{number}".encode())
        producer.flush()
        running = mirror("again")
        until(lambda all=(part + 1) * 100: len(values(b, "A.again")) >= all, "all of the part")
        running.stop()
    assert values(b, "A.again") == values(a, "again")


def test_a_group_that_moves_over_reads_none_again_and_misses_none(
    clusters: tuple[Broker, Broker], mirror: Callable[..., MirrorMaker]
) -> None:
    a, b = clusters
    create(a, "moved")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "moving"})
    producer.init_transactions()
    for number in range(30):
        producer.begin_transaction()
        for each in range(3):
            producer.produce("moved", f"{number}-{each}".encode())
        producer.commit_transaction()
    offsets = [offset for offset, _ in rows(a, "moved")]
    mirror("moved")
    until(lambda: len(values(b, "A.moved")) == 90, "all records")
    for index in (1, 4, 45, 88):
        group = f"mover-{index}"
        consumer = Consumer({"bootstrap.servers": a.bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition("moved", 0, offsets[index])], asynchronous=False)
        consumer.close()
        there = Consumer({"bootstrap.servers": b.bootstrap_servers, "group.id": group})

        def position(reader: Consumer = there) -> int:
            return int(reader.committed([TopicPartition("A.moved", 0)], timeout=10)[0].offset)

        until(lambda p=position: p() >= 0, f"the offset of group {group}")
        rest = [row for _, row in rows(b, "A.moved", 0, position())]
        there.close()
        assert rest == values(a, "moved")[index:]
    checkpoints = {
        found.group: found
        for key, value, *_ in values(b, "A.checkpoints.internal")
        if key and value and (found := formats.read_checkpoint(key, value)).topic == "A.moved"
    }
    assert checkpoints["mover-45"].upstream_offset == offsets[45]


def test_records_that_are_gone_before_they_were_copied_are_an_error(
    clusters: tuple[Broker, Broker], mirror: Callable[..., MirrorMaker]
) -> None:
    a, b = clusters
    create(a, "gap")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers})
    for number in range(10):
        producer.produce("gap", str(number).encode())
    producer.flush()
    running = mirror("gap")
    until(lambda: len(values(b, "A.gap")) == 10, "the first records")
    running.stop()
    for number in range(10, 20):
        producer.produce("gap", str(number).encode())
    producer.flush()
    admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
    admin.delete_records([TopicPartition("gap", 0, 15)])[TopicPartition("gap", 0)].result(30)
    running = mirror("gap")
    until(lambda: running.statuses()[0].state == "FAILED", "the failure")
    reason = running.statuses()[0].reason
    assert "gap-0" in reason
    assert "10" in reason
    running.stop()
    mirror("gap", **{"ottla.gaps": "skip"})
    until(lambda: len(values(b, "A.gap")) == 15, "what is left")


def test_a_topic_that_was_created_again_is_an_error(
    clusters: tuple[Broker, Broker], mirror: Callable[..., MirrorMaker]
) -> None:
    a, b = clusters
    create(a, "reborn")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers})
    producer.produce("reborn", b"old")
    producer.flush()
    running = mirror("reborn")
    until(lambda: len(values(b, "A.reborn")) == 1, "the first record")
    running.stop()
    admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
    admin.delete_topics(["reborn"])["reborn"].result(30)
    until(lambda: "reborn" not in admin.list_topics(timeout=10).topics, "the deletion")
    create(a, "reborn")
    producer.produce("reborn", b"new")
    producer.flush()
    running = mirror("reborn")
    until(lambda: running.statuses()[0].state == "FAILED", "the failure")
    assert "was deleted and created again" in running.statuses()[0].reason


def test_a_full_disk_is_shown_and_the_flow_goes_on_with_room(
    clusters: tuple[Broker, Broker], mirror: Callable[..., MirrorMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = clusters
    create(a, "room")
    a.produce("room", b"first")
    running = mirror("room", **{"B.default.api.timeout.ms": "3000"})
    until(lambda: len(values(b, "A.room")) == 1, "the first record")
    disk = Disk(monkeypatch, b.data, errno.ENOSPC)
    a.produce("room", b"second")
    until(lambda: running.statuses()[0].state == "FAILED", "the flow says that it cannot write")
    # The transaction coordinator cannot write either, and gives Kafka's message.
    reason = running.statuses()[0].reason
    assert reason == "No transaction can be begun as 'mirror-A->B': NOT_COORDINATOR."
    disk.broken = False
    until(lambda: running.statuses()[0].state == "RUNNING", "it goes on")
    until(lambda: values(b, "A.room") == values(a, "room"), "both records, once")


def test_topics_come_with_their_partitions_and_settings(
    clusters: tuple[Broker, Broker], mirror: Callable[..., MirrorMaker]
) -> None:
    from confluent_kafka.admin import ConfigResource, NewPartitions

    a, b = clusters
    create(
        a,
        "settings",
        1,
        **{"retention.ms": "123456789", "min.insync.replicas": "1", "cleanup.policy": "compact"},
    )
    mirror("settings", **{"refresh.topics.interval.seconds": "1", "sync.topic.configs.interval.seconds": "1"})
    admin = AdminClient({"bootstrap.servers": b.bootstrap_servers})
    until(lambda: "A.settings" in admin.list_topics(timeout=10).topics, "the topic")
    resource = ConfigResource("topic", "A.settings")
    found = admin.describe_configs([resource])[resource].result(30)
    assert found["retention.ms"].value == "123456789"
    assert found["cleanup.policy"].value == "compact"
    grown = AdminClient({"bootstrap.servers": a.bootstrap_servers})
    grown.create_partitions([NewPartitions("settings", 3)])["settings"].result(30)
    until(lambda: len(admin.list_topics(timeout=10).topics["A.settings"].partitions) == 3, "the partitions")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers})
    producer.produce("settings", b"v", b"k", 2)
    producer.flush()
    until(lambda: len(values(b, "A.settings", 2)) == 1, "a record of a new partition")
