"""Tiered storage in a cluster: followers that start above remote records, and leaders that change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.protocol.messages.fetch import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.testing import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

COUNT = 300
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "3000",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "0",
    "min.insync.replicas": "1",
}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("remote")


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster], remote: Path) -> Iterator[Cluster]:
    config = {
        "remote.log.storage.system.enable": "true",
        "ottla.remote.storage.uri": f"file://{remote}",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    }
    with new_cluster(3, config=config) as running:
        yield running


def produce(cluster: Cluster, topic: str, start: int, count: int) -> None:
    producer = Producer({**cluster.client_config(), "batch.num.messages": 5, "acks": "all"})
    for number in range(start, start + count):
        producer.produce(topic, b"value %d" % number, partition=0)
        if number % 50 == 49:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def consume(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**cluster.client_config(), "group.id": "g", "auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            found += [message.value() for message in consumer.consume(500, 0.2) if message.error() is None]
        return found
    finally:
        consumer.close()


def offset_of(cluster: Cluster, topic: str, timestamp: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    answer = cluster.ask(request, ListOffsetsResponse, broker=cluster.leader(topic))
    return answer.topics[0].partitions[0].offset


def local_starts(cluster: Cluster, topic: str) -> dict[int, int]:
    """Return the base offset of the first segment of each replica."""
    found = {}
    for broker_id in cluster.ports:
        starts = [int(each.stem) for each in cluster.directory(broker_id).glob(f"{topic}-0/*.log")]
        if starts:
            found[broker_id] = min(starts)
    return found


def tiered(cluster: Cluster, topic: str, end: int) -> None:
    cluster.wait_until(
        lambda: offset_of(cluster, topic, -4) > end - 100 and offset_of(cluster, topic, -5) > end - 100,
        "old segments are only in remote storage",
        60,
    )


def test_followers_delete_what_the_leader_has_copied(cluster: Cluster) -> None:
    cluster.create_topic("followed", replication_factor=3, config=TOPIC_CONFIG)
    produce(cluster, "followed", 0, COUNT)
    tiered(cluster, "followed", COUNT)
    cluster.wait_until(
        lambda: all(start > COUNT - 100 for start in local_starts(cluster, "followed").values()),
        "all replicas are small",
        60,
    )
    assert offset_of(cluster, "followed", -2) == 0
    assert consume(cluster, "followed", COUNT) == [b"value %d" % number for number in range(COUNT)]


def test_another_leader_goes_on(cluster: Cluster, remote: Path) -> None:
    cluster.create_topic("handed-over", replication_factor=3, config=TOPIC_CONFIG)
    produce(cluster, "handed-over", 0, COUNT)
    tiered(cluster, "handed-over", COUNT)
    first = cluster.leader("handed-over")
    cluster.kill(first)
    try:
        cluster.wait_for_leader("handed-over", other_than=first)
        produce(cluster, "handed-over", COUNT, COUNT)
        tiered(cluster, "handed-over", 2 * COUNT)
        expected = [b"value %d" % number for number in range(2 * COUNT)]
        assert consume(cluster, "handed-over", 2 * COUNT) == expected
    finally:
        cluster.restart(first)
    # The replica that was away lacks records that are only in remote storage now.
    cluster.wait_for_isr("handed-over", {0, 1, 2})
    assert local_starts(cluster, "handed-over")[first] > COUNT
    assert consume(cluster, "handed-over", 2 * COUNT) == expected
    for broker_id in {0, 1, 2} - {first}:
        cluster.stop(broker_id)
        cluster.restart(broker_id)
        cluster.wait_for_isr("handed-over", {0, 1, 2})
    assert consume(cluster, "handed-over", 2 * COUNT) == expected


def test_a_new_replica_starts_above_the_remote_records(cluster: Cluster) -> None:
    cluster.create_topic("reassigned", replication_factor=1, config=TOPIC_CONFIG)
    produce(cluster, "reassigned", 0, COUNT)
    tiered(cluster, "reassigned", COUNT)
    first = cluster.leader("reassigned")
    for replicas in ([first, (first + 1) % 3], [(first + 1) % 3]):
        asked = ReassignablePartition(partition_index=0, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="reassigned", partitions=[asked])], timeout_ms=30_000
        )
        cluster.ask(request, AlterPartitionReassignmentsResponse, broker=cluster.controller())
        cluster.wait_for_isr("reassigned", replicas)
    assert cluster.wait_for_leader("reassigned", other_than=first) == (first + 1) % 3
    produce(cluster, "reassigned", COUNT, COUNT)
    assert offset_of(cluster, "reassigned", -2) == 0
    assert consume(cluster, "reassigned", 2 * COUNT) == [b"value %d" % number for number in range(2 * COUNT)]
    assert local_starts(cluster, "reassigned")[(first + 1) % 3] > COUNT - 100


@pytest.mark.slow
def test_interrupted_copies_leave_no_objects(cluster: Cluster, remote: Path) -> None:
    cluster.create_topic("interrupted", replication_factor=3, config=TOPIC_CONFIG)
    for round_number in range(3):
        produce(cluster, "interrupted", round_number * COUNT, COUNT)
        leader = cluster.leader("interrupted")
        cluster.kill(leader)  # perhaps during a copy
        cluster.wait_for_leader("interrupted", other_than=leader)
        cluster.restart(leader)
        cluster.wait_for_isr("interrupted", {0, 1, 2})
    end = 3 * COUNT
    tiered(cluster, "interrupted", end)
    assert consume(cluster, "interrupted", end) == [b"value %d" % number for number in range(end)]
    [directory] = remote.glob("interrupted-*/0")

    def complete() -> bool:
        names = [each.name for each in directory.iterdir()]
        stems = {name.partition(".")[0] for name in names}
        return not any("tmp" in name for name in names) and len(names) == 3 * len(stems)

    cluster.wait_until(complete, "no object is left over", 60)
