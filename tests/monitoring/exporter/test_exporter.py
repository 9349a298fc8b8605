"""Lag and offsets under kafka_exporter's names, with few requests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import commit_offsets
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.exporter import Exporter, Filter, Group, PartitionState, Snapshot, exporter_lines
from ottla.testing import Broker
from tests.broker.metrics.scraping import Metrics, scrape


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"metrics.port": "0"}) as running:
        for topic in ("orders", "payments"):
            running.create_topic(topic, 2)
            for place in range(10):
                running.produce(topic, str(place).encode(), partition=place % 2)
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    opened = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
    yield opened
    opened.close()


def test_lag_is_what_a_group_has_yet_to_read(cluster: Cluster) -> None:
    commit_offsets(cluster, "billing", {TopicPartition("orders", 0): 1, TopicPartition("orders", 1): 5})
    found = Metrics(Exporter(cluster).render())
    assert found.value("kafka_consumergroup_lag", consumergroup="billing", topic="orders", partition="0") == 4
    assert found.value("kafka_consumergroup_lag", consumergroup="billing", topic="orders", partition="1") == 0
    assert found.value("kafka_consumergroup_lag_sum", consumergroup="billing", topic="orders") == 4
    assert found.value("kafka_consumergroup_current_offset_sum", consumergroup="billing", topic="orders") == 6
    assert found.value("kafka_consumergroup_members", consumergroup="billing") == 0
    assert not found.all("kafka_consumergroup_lag", topic="payments")
    assert found.value("ottla_exporter_up") == 1


def test_partitions_are_described(cluster: Cluster) -> None:
    found = Metrics(Exporter(cluster).render())
    assert found.value("kafka_brokers") == 1
    assert found.value("kafka_topic_partitions", topic="orders") == 2
    of = {"topic": "orders", "partition": "1"}
    expected = {
        "current_offset": 5, "oldest_offset": 0, "replicas": 1, "in_sync_replica": 1, "leader": 0,
        "leader_is_preferred": 1, "under_replicated_partition": 0,
    }  # fmt: skip
    for name, value in expected.items():
        assert found.value(f"kafka_topic_partition_{name}", **of) == value
        assert found.types[f"kafka_topic_partition_{name}"] == "gauge"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_counted(broker: Broker, cluster: Cluster, protocol: str) -> None:
    group = f"g-{protocol}"
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe(["payments"])
        message = consumer.poll(20)
        assert message is not None
        consumer.commit(message, asynchronous=False)
        found = Metrics(Exporter(cluster, idle_groups=False).render())
    finally:
        consumer.close()
    assert found.value("kafka_consumergroup_members", consumergroup=group) == 1
    assert found.value("kafka_consumergroup_lag_sum", consumergroup=group, topic="payments") == 4
    assert not found.all("kafka_consumergroup_members", consumergroup="billing")


def test_a_scrape_takes_few_requests_however_many_groups_there_are(broker: Broker, cluster: Cluster) -> None:
    for place in range(20):
        commit_offsets(cluster, f"many-{place}", {TopicPartition("orders", 0): place % 5})
    exporter = Exporter(cluster)
    name = "kafka_network_requestmetrics_requests_total"
    before = scrape(broker).total(name)
    found = Metrics(exporter.render())
    assert len(found.all("kafka_consumergroup_members")) >= 20
    assert scrape(broker).total(name) - before <= 7


def test_filters_choose_topics_and_groups(cluster: Cluster) -> None:
    commit_offsets(cluster, "billing", {TopicPartition("orders", 0): 1, TopicPartition("payments", 0): 1})
    exporter = Exporter(
        cluster, topics=Filter(re.compile("^pay"), re.compile("^$")), groups=Filter(re.compile("bill"))
    )
    found = Metrics(exporter.render())
    assert {each.labels["topic"] for each in found.all("kafka_topic_partitions")} == {"payments"}
    assert {each.labels["topic"] for each in found.all("kafka_consumergroup_lag")} == {"payments"}
    assert {each.labels["consumergroup"] for each in found.all("kafka_consumergroup_members")} == {"billing"}


def test_lag_is_never_negative_and_unknown_without_a_leader() -> None:
    group = Group("g", offsets={("t", 0): 9, ("t", 1): 3, ("gone", 0): 1})
    snapshot = Snapshot(
        partitions={("t", 0): PartitionState(1, (1,), (1,)), ("t", 1): PartitionState(-1, (2,), (2,))},
        ends={("t", 0): 7},
        groups={"g": group},
    )
    found = Metrics("".join(exporter_lines(snapshot)))
    [lag] = found.all("kafka_consumergroup_lag")
    assert (lag.labels["partition"], lag.value) == ("0", 0)
    assert found.value("kafka_topic_partition_leader", topic="t", partition="1") == -1
    assert not found.all("kafka_consumergroup_current_offset", topic="gone")


def test_a_cluster_that_is_away_is_said_to_be_down() -> None:
    gone = Cluster(Settings((("127.0.0.1", 1),)))
    found = Metrics(Exporter(gone).render())
    assert found.value("ottla_exporter_up") == 0
    assert not found.all("kafka_brokers")


def test_lag_in_seconds_and_the_build_are_shown(broker: Broker, cluster: Cluster) -> None:
    commit_offsets(cluster, "late", {TopicPartition("payments", 0): 1})
    exporter = Exporter(cluster)
    exporter.render()
    broker.produce("payments", b"more", partition=0)
    found = Metrics(exporter.render())
    of = {"group": "late", "topic": "payments", "partition": "0"}
    assert (found.value("kafka_consumergroup_group_lag_seconds", **of) or 0) > 0
    assert (found.value("kafka_consumergroup_group_max_lag_seconds", group="late") or 0) > 0
    assert [each.value for each in found.all("kafka_exporter_build_info")] == [1]


def test_pipelines_of_other_clusters_are_left_out(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.cli.commands.servers.exporter import _pipelines
    from ottla.spark.pipelines.state import Phase, Pipelines, PipelineState, process_started

    monkeypatch.setenv("OTTLA_STATE_DIR", str(tmp_path))
    own = os.getpid()
    for name, servers in (("here", cluster.settings.servers), ("elsewhere", "other:9092")):
        with Pipelines().claim(name):
            Pipelines().write(
                PipelineState(
                    name,
                    own,
                    process_started(own) or 0,
                    "x.py",
                    "local",
                    servers,
                    "c",
                    "l",
                    0.0,
                    Phase.RUNNING,
                )
            )
    text = "".join(_pipelines(cluster))
    assert 'pipeline="here"' in text
    assert "elsewhere" not in text
