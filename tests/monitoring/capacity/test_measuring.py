"""Measured rates of a live cluster, compared with the actual writes and reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.admin.topics import topic_names
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import commit_offsets
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.capacity.load import loads
from ottla.monitoring.capacity.measuring import facts_between, look, measure, probe, read_idle
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"metrics.port": "0"}) as running:
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    opened = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
    yield opened
    opened.close()


def test_rates_are_what_was_written_and_read(broker: Broker, cluster: Cluster) -> None:
    broker.create_topic("t", 2)
    for _ in range(50):
        broker.produce("t", bytes(1000))
    commit_offsets(cluster, "g", {TopicPartition("t", 0): 0})
    before = look(cluster, clock=lambda: 5.0)
    for _ in range(100):
        broker.produce("t", bytes(1000))
    commit_offsets(cluster, "g", {TopicPartition("t", 0): 120})
    after = look(cluster, clock=lambda: 15.0)
    facts = facts_between(before, after)
    found = facts.partitions["t", 0]
    assert found.record_rate == pytest.approx(10)
    assert found.byte_rate == pytest.approx(10 * 1070, rel=0.05)
    assert found.read_rate == pytest.approx(12 * 1070, rel=0.05)
    assert facts.partitions["t", 1].byte_rate == 0
    assert facts.groups == 1
    # The prediction equals the growth of the disk usage.
    assert loads(facts).brokers[0].bytes_in * facts.seconds == pytest.approx(
        sum(after.sizes[0, ("t", each)] - before.sizes[0, ("t", each)] for each in (0, 1)), rel=0.25
    )


def test_records_tell_the_rate_where_retention_has_deleted_more(broker: Broker, cluster: Cluster) -> None:
    broker.create_topic("r")
    for _ in range(10):
        broker.produce("r", bytes(100))
    before, after = look(cluster), look(cluster)
    after.snapshot.ends["r", 0] += 5
    after.sizes[0, ("r", 0)] //= 2
    found = facts_between(before, after).partitions["r", 0]
    assert found.record_rate > 0
    assert found.byte_rate > 0


def test_disks_settings_and_idleness_are_known(broker: Broker, cluster: Cluster) -> None:
    broker.create_topic("kept", config={"retention.ms": "1000", "min.insync.replicas": "1"})
    broker.create_topic("compacted", config={"cleanup.policy": "compact"})
    facts, failures = measure(cluster, 0.1)
    assert failures == []
    assert facts.topics["kept"].retention_ms == 1000
    assert facts.topics["compacted"].is_compacted
    assert facts.topics["compacted"].retention_ms is None
    assert facts.brokers[0].total is not None
    assert facts.brokers[0].usable is not None
    facts, failures = read_idle(facts, [broker.metrics_url, "http://127.0.0.1:1/metrics"])
    assert len(failures) == 1
    assert facts.brokers[0].idle is not None
    assert 0 <= facts.brokers[0].idle <= 1


def test_a_probe_measures_a_partition_and_leaves_nothing(cluster: Cluster) -> None:
    produce, consume = probe(cluster, 0.2)
    assert produce > 100_000
    assert consume > 100_000
    assert not [name for name in topic_names(cluster) if name.startswith("ottla-probe")]
