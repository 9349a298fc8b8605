"""Filters of a batch query narrow what is read, and never what comes out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.settings import Settings
from ottla.spark.narrowing import Narrowing
from ottla.spark.ranges import OffsetRange
from ottla.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import Source

COUNT = 50
START = 1_700_000_000_000
TOPICS = ("narrow-a", "narrow-b")


@pytest.fixture(scope="module")
def cluster(ottla_broker: Broker) -> Iterator[Cluster]:
    """Two topics of two partitions, a record for each second."""
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    for topic in TOPICS:
        ottla_broker.create_topic(topic, partitions=2)
        for partition in range(2):
            for number in range(COUNT):
                at = START + 1000 * number
                producer.produce(topic, str(number), partition=partition, timestamp=at)
    producer.flush()
    made = Cluster(Settings.from_properties({"bootstrap.servers": ottla_broker.bootstrap_servers}))
    yield made
    made.close()


def at(number: int) -> datetime:
    return datetime.fromtimestamp(START / 1000 + number, UTC)


def narrowed(cluster: Cluster, *filters: Filter) -> dict[str, tuple[int, int]]:
    everything = [OffsetRange(TopicPartition(topic, p), 0, COUNT) for topic in TOPICS for p in range(2)]
    kept = Narrowing.of(filters).apply(cluster, everything, 0)
    return {str(each.partition): (each.start, each.end) for each in kept}


ALL = {f"{topic}-{partition}": (0, COUNT) for topic in TOPICS for partition in range(2)}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ALL),
        ([IsNotNull(("offset",)), EqualTo(("key",), b"x")], ALL),
        ([EqualTo(("topic",), "narrow-b")], {"narrow-b-0": (0, 50), "narrow-b-1": (0, 50)}),
        (
            [In(("topic",), ("narrow-a", "x")), EqualTo(("partition",), 1)],
            {"narrow-a-1": (0, 50)},
        ),
        ([EqualTo(("topic",), "other")], {}),
        ([GreaterThan(("partition",), 1)], {"narrow-a-1": (0, 50), "narrow-b-1": (0, 50)}),
        (
            [EqualTo(("topic",), "narrow-a"), GreaterThanOrEqual(("offset",), 10), LessThan(("offset",), 20)],
            {"narrow-a-0": (10, 21), "narrow-a-1": (10, 21)},
        ),
        (
            [In(("offset",), (7, 9)), EqualTo(("partition",), 0)],
            {"narrow-a-0": (7, 10), "narrow-b-0": (7, 10)},
        ),
        ([EqualTo(("offset",), 99)], {}),
        ([EqualTo(("offset",), 5), EqualTo(("offset",), 6)], {}),
        (
            [GreaterThan(("timestamp",), at(30)), EqualTo(("topic",), "narrow-a")],
            {"narrow-a-0": (30, 50), "narrow-a-1": (30, 50)},
        ),
        ([GreaterThanOrEqual(("timestamp",), at(1000))], {}),
        ([LessThanOrEqual(("timestamp",), at(30))], ALL),
    ],
)
def test_ranges_hold_what_may_pass(cluster: Cluster, filters: list[Filter], expected: dict[str, Any]) -> None:
    assert narrowed(cluster, *filters) == expected


@pytest.mark.usefixtures("cluster")
def test_a_query_reads_only_that_and_has_the_same_rows(spark: SparkSession, source: Source) -> None:
    frame = source.batch(subscribe=",".join(TOPICS))
    condition = "topic = 'narrow-a' AND partition = 1 AND offset BETWEEN 10 AND 19"
    rows = frame.where(condition).selectExpr("CAST(value AS STRING) AS value")
    assert sorted(int(row.value) for row in rows.collect()) == list(range(10, 20))
    assert rows.rdd.getNumPartitions() == 1
    late = frame.where("timestamp > timestamp_millis(1700000044000) AND partition IN (0)")
    assert late.count() == 2 * 5
    assert frame.where("offset = 3 OR partition = 7").count() == 4
    assert frame.where("topic = 'nowhere'").count() == 0
