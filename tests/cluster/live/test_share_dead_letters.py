"""Promise: on a cluster whose brokers are killed, every rejected record reaches the dead-letter topic (KIP-1191)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, AcknowledgeType, Consumer, TopicPartition

from ottla.testing import Cluster
from tests.cluster.live.share_groups import (
    CONFIG,
    PARTITIONS,
    STATE_TOPIC,
    lags,
    produce,
    share_coordinator,
)
from tests.cluster.live.share_workers import Workers, configure_group

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

LETTERS = "dlq.letters"
ENABLED = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": "2"}


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config=CONFIG) as running:
        yield running


def fate(value: bytes) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT if int(value) % 3 == 0 else AcknowledgeType.REJECT


def prepare(cluster: Cluster, topic: str, letters: str) -> None:
    cluster.create_topic(topic, PARTITIONS)
    cluster.create_topic(letters, PARTITIONS, config=ENABLED)
    configure_group(
        cluster,
        topic,
        {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": "10",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.copy.record.enable": "true",
        },
    )


def test_letters_cross_brokers(cluster: Cluster) -> None:
    prepare(cluster, "quiet", "dlq.quiet")
    written = produce(cluster, "quiet", range(60))
    with Workers(cluster, "quiet", "quiet", 1, fate) as workers:
        cluster.wait_until(lambda: written <= workers.accepted.keys(), "all records are acknowledged", 60)
        cluster.wait_until(lambda: set(lags(cluster, "quiet")) == {0}, "every record is done", 60)
    rejected = {value for value in written if fate(value) is AcknowledgeType.REJECT}
    assert values(cluster, "dlq.quiet") == Counter(rejected)


@pytest.mark.slow
def test_every_rejected_record_has_a_letter_after_twenty_kills(cluster: Cluster) -> None:
    prepare(cluster, "jobs", LETTERS)
    written: set[bytes] = set()
    with Workers(cluster, "jobs", "jobs", 3, fate) as workers:
        for turn in range(20):
            written |= produce(cluster, "jobs", range(500 * turn, 500 * turn + 500))
            enough = len(written) - 400
            cluster.wait_until(lambda: len(workers.accepted) >= enough, "workers work", 90)  # noqa: B023
            broker = struck(cluster, turn)
            cluster.kill(broker)
            cluster.restart(broker)
            for each in range(PARTITIONS):
                for topic in (STATE_TOPIC, "jobs", LETTERS):
                    cluster.wait_for_isr(topic, cluster.ports, each, 60)
        cluster.wait_until(lambda: written <= workers.delivered(), "all have come", 120)
        # A broker may have died before it confirmed an acknowledgement; the lag includes such records.
        cluster.wait_until(lambda: set(lags(cluster, "jobs")) == {0}, "every record is done", 120)
    found = values(cluster, LETTERS)
    rejected = {value for value in written if fate(value) is AcknowledgeType.REJECT}
    assert found.keys() == rejected
    print(f"{len(rejected)} rejected records have {found.total()} letters")


def struck(cluster: Cluster, turn: int) -> int:
    """Return the leader of records, the leader of letters, or the keeper of the state."""
    partition = turn % PARTITIONS
    if turn % 3 == 0:
        return cluster.wait_for_leader("jobs", partition)
    if turn % 3 == 1:
        return cluster.wait_for_leader(LETTERS, partition)
    return share_coordinator(cluster, "jobs", "jobs", partition)


def values(cluster: Cluster, topic: str) -> Counter[bytes]:
    """Return how often each value is in the topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader"})
    try:
        starts = [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)]
        ends = {each.partition: consumer.get_watermark_offsets(each, timeout=30)[1] for each in starts}
        consumer.assign(starts)
        found: Counter[bytes] = Counter()
        deadline = time.monotonic() + 60
        while found.total() < sum(ends.values()):
            assert time.monotonic() < deadline
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None
                found[message.value() or b""] += 1
        return found
    finally:
        consumer.close()
