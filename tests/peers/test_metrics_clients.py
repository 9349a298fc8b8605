"""Exporter, canary and capacity work with any cluster: here Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import commit_offsets
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.canary import Canary
from ottla.monitoring.capacity.load import loads
from ottla.monitoring.capacity.measuring import measure, probe
from ottla.monitoring.exporter import Exporter
from tests.broker.metrics.scraping import Metrics

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ApacheKafka(data=tmp_path_factory.mktemp("kafka"), config={}) as kafka:
        opened = Cluster(Settings(parse_servers(kafka.bootstrap_servers)))
        yield opened
        opened.close()


def test_a_canary_flies_and_the_exporter_sees_it(cluster: Cluster) -> None:
    bird = Canary(cluster, "canary", records=20)
    for _ in range(3):
        found = bird.round()
        assert (found.acknowledged, found.lost, found.failed, found.errors) == (20, 0, 0, {})
    commit_offsets(cluster, "g", {TopicPartition("canary", 0): 25})
    shown = Metrics(Exporter(cluster).render())
    assert shown.value("kafka_topic_partition_current_offset", topic="canary", partition="0") == 60
    assert shown.value("kafka_consumergroup_lag", consumergroup="g", topic="canary", partition="0") == 35
    assert shown.value("kafka_brokers") == 1


def test_capacity_is_measured(cluster: Cluster) -> None:
    bird = Canary(cluster, "canary", records=100, size=1000)
    bird.round()
    facts, failures = measure(cluster, 1.0, sleep=lambda _: [bird.round() for _ in range(5)])
    assert failures == []
    found = facts.partitions["canary", 0]
    assert found.record_rate * facts.seconds == pytest.approx(500, rel=0.01)
    assert found.byte_rate * facts.seconds == pytest.approx(500_000, rel=0.25)
    assert loads(facts).brokers[found.leader].leaders >= 1
    assert facts.brokers[found.leader].total is not None
    produce, consume = probe(cluster, 0.5)
    assert min(produce, consume) > 100_000
