"""Promise: an exactly-once stream balances with its brokers while they are killed, and a loss is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import cluster as client
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC
from ottla.monitoring.audit.tier_counts import LOSS, Finding
from ottla.testing import Cluster
from tests.cluster.live.test_count_audit import BUCKET, CONFIG, MOMENT, send, wait_for_count, write_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(450)]

Records = list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config=CONFIG) as running:
        yield running


def copy(spark: SparkSession, cluster: Cluster, topic: str, checkpoint: Path, **more: str) -> None:
    """Copy the current records to another topic in one run of a query."""
    reading = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": "200",
        "failOnDataLoss": "false",
    }
    writing = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": f"{topic}-copy",
        "checkpointLocation": str(checkpoint),
        "ottla.audit.enable": "true",
        "ottla.audit.bucket.ms": str(BUCKET),
        "ottla.audit.known.as": topic,
        **more,
    }
    rows = spark.readStream.format("ottla").options(**reading).load().select("key", "value", "timestamp")
    query = rows.writeStream.format("ottla").options(**writing).trigger(availableNow=True).start()
    assert query.awaitTermination(200)


def balance(spark: SparkSession, cluster: Cluster, topic: str, *tiers: str) -> list[Finding]:
    from ottla.spark.audit import balance as audit

    tier_counts = audit.read_tier_counts(
        spark, [{"kafka.bootstrap.servers": cluster.bootstrap_servers}], AUDIT_TOPIC
    )
    return [each for each in audit.balance(tier_counts, audit.Terms(tiers, 0)) if each.topic == topic]


def test_kills_are_not_reported_and_what_an_unclean_election_took_is(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    safe = {"min.insync.replicas": "2"}
    for topic in ("orders", "orders-copy"):
        cluster.create_topic(topic, 2, config=safe)
    sent: Records = []
    for turn, victim in enumerate((None, 0, 1, 2)):  # with all brokers up: creates the coordinators' topics
        some = [(MOMENT + turn * BUCKET + at, b"order %d.%d" % (turn, at)) for at in range(300)]
        send(cluster, "orders", some)
        sent += some
        if victim is not None:
            cluster.kill(victim)
        copy(spark, cluster, "orders", tmp_path / "orders")
        if victim is not None:
            cluster.restart(victim)
        for topic in ("orders", "orders-copy", AUDIT_TOPIC):
            cluster.wait_for_isr(topic, cluster.ports)
    settings = Settings(parse_servers(cluster.bootstrap_servers), request_timeout=10, api_timeout=60)
    with closing(client.Cluster(settings)) as opened:
        write_page(opened, "orders", "producer", sent)
        wait_for_count(cluster, opened, "orders", len(sent))
        wait_for_count(cluster, opened, "orders-copy", len(sent))
        assert balance(spark, cluster, "orders", "producer", "broker", "spark") == []

        cluster.create_topic("lost", config={"unclean.leader.election.enable": "true"})
        cluster.create_topic("lost-copy", config=safe)
        leader = cluster.leader("lost")
        others = [each for each in cluster.ports if each != leader]
        send(cluster, "lost", [(MOMENT + at, b"a %d" % at) for at in range(50)])
        for other in others:
            cluster.kill(other)
        cluster.wait_for_isr("lost", {leader})
        send(cluster, "lost", [(MOMENT + BUCKET + at, b"b %d" % at) for at in range(30)])
        wait_for_count(cluster, opened, "lost", 80)
        cluster.kill(leader)
        for other in others:
            cluster._launch(other)
        cluster.wait_for_brokers(others)
        cluster.wait_until(lambda: cluster.leader("lost") in others, "another one leads")
        cluster.restart(leader)
        cluster.wait_for_isr("lost", cluster.ports)
        send(cluster, "lost", [(MOMENT + 2 * BUCKET + at, b"c %d" % at) for at in range(20)])
        copy(spark, cluster, "lost", tmp_path / "lost")
        wait_for_count(cluster, opened, "lost", 100)
        assert balance(spark, cluster, "lost", "broker", "spark") == [
            Finding("lost", MOMENT + BUCKET, "spark", "broker", LOSS, 30, 30)
        ]
