"""Pipelines and mirrors on Spark between counting brokers: balanced tier_counts, and findings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, read_tier_counts
from ottla.monitoring.audit.tier_counts import DUPLICATION, Finding, TierCounts
from ottla.testing import Broker
from tests.mirror.records import create, until, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKET = 1000
MOMENT = 1_700_000_000_000
AUDIT = {
    "ottla.audit.enable": "true",
    "ottla.audit.bucket.ms": str(BUCKET),
    "ottla.audit.interval.ms": "300",
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Broker, Broker]]:
    east = Broker(config={**AUDIT, "ottla.audit.tier": "east"})
    west = Broker(config={**AUDIT, "ottla.audit.tier": "west"})
    with east, west:
        yield east, west


def counts_of(*brokers: Broker) -> TierCounts:
    tier_counts = TierCounts()
    for broker in brokers:
        with closing(Cluster(Settings(parse_servers(broker.bootstrap_servers)))) as cluster:
            if cluster.topics([AUDIT_TOPIC]):
                read_tier_counts(cluster, into=tier_counts)
    return tier_counts


def counted(tier_counts: TierCounts, topic: str, tier: str) -> int:
    return sum(each.count for each in tier_counts.counts.get((topic, tier), {}).values())


def feed(broker: Broker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in numbers:
        at = MOMENT + number * 10
        producer.produce(topic, b"value %d" % number, b"%d" % (number % 7), timestamp=at)
    assert producer.flush(30) == 0


def on_spark(spark: SparkSession, brokers: tuple[Broker, ...], *tiers: str) -> list[Finding]:
    from ottla.spark.audit.balance import Terms, balance
    from ottla.spark.audit.balance import read_tier_counts as read_frame

    options = [{"kafka.bootstrap.servers": each.bootstrap_servers} for each in brokers]
    return balance(read_frame(spark, options, AUDIT_TOPIC), Terms(tiers, 0))


def test_a_stream_that_is_stopped_and_goes_on_balances(
    spark: SparkSession, clusters: tuple[Broker, Broker], tmp_path: Path
) -> None:
    east, _ = clusters
    create(east, "orders", 3)
    create(east, "copy", 2)
    total = 0
    for part in (200, 350, 500):
        feed(east, "orders", range(total, part))
        total = part
        read = (
            spark.readStream.format("ottla")
            .option("kafka.bootstrap.servers", east.bootstrap_servers)
            .option("subscribe", "orders")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "90")
            .load()
        )
        query = (
            read.select("key", "value", "timestamp")
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", east.bootstrap_servers)
            .option("topic", "copy")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("ottla.audit.enable", "true")
            .option("ottla.audit.bucket.ms", str(BUCKET))
            .option("ottla.audit.known.as", "orders")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    until(
        lambda: (
            counted(counts_of(east), "orders", "east") == total
            and counted(counts_of(east), "copy", "east") == total
        ),
        "the broker has counted both topics",
    )
    tier_counts = counts_of(east)
    assert counted(tier_counts, "orders", "spark") == total
    assert tier_counts.balance("orders", ("east", "spark"), grace_ms=0) == []
    assert [each for each in on_spark(spark, (east,), "east", "spark") if each.topic == "orders"] == []


def test_a_mirror_balances_and_one_that_runs_again_is_a_duplication(
    spark: SparkSession, clusters: tuple[Broker, Broker]
) -> None:
    from ottla.mirror.mirror_maker import MirrorMaker
    from ottla.mirror.settings import parse_flows

    east, west = clusters
    create(east, "payments", 2)
    feed(east, "payments", range(300))
    tiers = ("east", "mirror", "west")

    def mirror(source: str, count: int) -> None:
        properties = {
            "clusters": f"{source}, W",
            f"{source}.bootstrap.servers": east.bootstrap_servers,
            "W.bootstrap.servers": west.bootstrap_servers,
            f"{source}->W.enabled": "true",
            "topics": "payments",
            "replication.policy.class": "IdentityReplicationPolicy",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "emit.heartbeats.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "ottla.audit.enable": "true",
            "ottla.audit.tier": "mirror",
            "ottla.audit.bucket.ms": str(BUCKET),
        }
        maker = MirrorMaker(spark, parse_flows(properties, ["W"]))
        maker.start()
        try:
            until(
                lambda: sum(len(values(west, "payments", each)) for each in range(2)) == count,
                f"{count} records have arrived",
            )
        finally:
            maker.stop()
        until(
            lambda: (
                counted(counts_of(west), "payments", "west") == count
                and counted(counts_of(east), "payments", "east") == 300
            ),
            "brokers have counted",
        )

    mirror("E", 300)
    tier_counts = counts_of(east, west)
    assert counted(tier_counts, "payments", "mirror") == 300
    assert tier_counts.balance("payments", tiers, grace_ms=0) == []
    mirror("again", 600)  # under another name it knows nothing about the copied records
    expected = [
        Finding("payments", MOMENT + at * BUCKET, "mirror", "east", DUPLICATION, -100, 100) for at in range(3)
    ]
    assert counts_of(east, west).balance("payments", tiers, grace_ms=0) == expected
    assert [each for each in on_spark(spark, (east, west), *tiers) if each.topic == "payments"] == expected
