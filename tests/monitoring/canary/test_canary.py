"""A canary reports losses and failures, with the broker concerned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.admin.offsets import delete_records
from ottla.client.admin.topics import delete_topics
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.canary import Canary, replicas
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.broker.metrics.scraping import Metrics


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    opened = Cluster(Settings(parse_servers(broker.bootstrap_servers), request_timeout=5, api_timeout=5))
    yield opened
    opened.close()


def test_a_healthy_cluster_loses_nothing(cluster: Cluster) -> None:
    bird = Canary(cluster, "healthy", records=5)
    for _ in range(3):
        found = bird.round()
        assert (found.brokers, found.acknowledged, found.lost, found.failed) == (1, 5, 0, 0)
        assert 0 < found.p50_ms <= found.p99_ms <= found.max_ms
        assert found.errors == {}
    metrics = Metrics("".join(bird.lines()))
    assert metrics.value("ottla_canary_acknowledged_total", broker="0") == 15
    assert metrics.value("ottla_canary_lost_total", broker="0") == 0
    assert metrics.value("ottla_canary_up", broker="0") == 1
    assert metrics.value("ottla_canary_latency_ms_count", broker="0") == 15


def test_two_canaries_do_not_take_each_others_records(cluster: Cluster) -> None:
    one, other = Canary(cluster, "shared", records=3), Canary(cluster, "shared", records=3)
    assert [bird.round().lost for bird in (one, other, one, other)] == [0, 0, 0, 0]


def test_acknowledged_records_that_are_gone_are_lost_once(cluster: Cluster) -> None:
    bird = Canary(cluster, "gone", records=4)
    bird.round()
    bird.round()
    delete_records(cluster, {("gone", 0): 6})
    assert bird.round().lost == 6
    assert bird.round().lost == 0


def test_other_records_at_the_same_offsets_are_a_loss(broker: Broker, cluster: Cluster) -> None:
    """As after an unclean election: the log is shorter, and grows again."""
    bird = Canary(cluster, "replaced", records=4)
    bird.round()
    delete_topics(cluster, ["replaced"])
    broker.create_topic("replaced")
    for _ in range(4):
        broker.produce("replaced", b"other")
    found = bird.round()
    assert (found.acknowledged, found.lost) == (4, 4)


def test_offsets_that_are_given_twice_are_a_loss(broker: Broker, cluster: Cluster) -> None:
    """The canary's next records take the offsets of the lost ones."""
    bird = Canary(cluster, "shorter", records=4)
    bird.round()
    bird.round()
    delete_topics(cluster, ["shorter"])
    assert bird.round().lost == 8
    assert bird.round().lost == 0


def test_what_is_not_acknowledged_has_failed_and_is_not_lost(broker: Broker, cluster: Cluster) -> None:
    bird = Canary(cluster, "refused", records=2)
    bird.round()
    broker.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=1000)
    try:
        found = bird.round()
    finally:
        broker.clear_faults()
    assert (found.acknowledged, found.lost, found.failed) == (0, 0, 2)
    assert "NOT_ENOUGH_REPLICAS" in found.errors[0]
    assert bird.round().errors == {}


def test_each_broker_leads_a_partition() -> None:
    assert replicas(2, [0, 1, 2, 5], 3) == [2, 5, 0]
    assert replicas(5, [0, 1, 2, 5], 2) == [5, 0]
