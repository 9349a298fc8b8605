"""Wrong clocks: no election, fencing or expiry depends on a wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from ottla.testing import Cluster
from tests.cluster.load import Load, read_all

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MINUTES = 10


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config={"min.insync.replicas": "2"}, faults=True) as running:
        yield running


def first_timestamp(cluster: Cluster, topic: str) -> float:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "clock"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        return float(message.timestamp()[1] / 1000)
    finally:
        consumer.close()


def test_a_broker_whose_clock_is_ahead_tells_its_own_time(cluster: Cluster) -> None:
    cluster.create_topic("stamped", config={"message.timestamp.type": "LogAppendTime"})
    cluster.skew(cluster.leader("stamped"), 60 * MINUTES)
    with Load(cluster.bootstrap_servers, "stamped") as load:
        load.wait_for(10)
    ahead = first_timestamp(cluster, "stamped") - time.time()
    assert 60 * MINUTES - 60 < ahead <= 60 * MINUTES


@pytest.mark.parametrize("minutes", [MINUTES, -MINUTES])
def test_a_clock_that_jumps_disturbs_nobody(cluster: Cluster, minutes: int) -> None:
    topic = f"jumped-{minutes}"
    cluster.create_topic(topic)
    before = cluster.partition(topic)
    assert before is not None
    controller = cluster.controller()
    with Load(cluster.bootstrap_servers, topic) as load:
        for broker_id in cluster.ports:
            load.wait_for(100)
            cluster.skew(broker_id, 60 * minutes)
            load.wait_for(100)
            cluster.skew(broker_id, 0)
    after = cluster.partition(topic)
    assert after is not None
    assert (after.leader, after.leader_epoch, set(after.isr)) == (before.leader, 0, {0, 1, 2})
    assert cluster.controller() == controller
    assert load.failed == []
    assert read_all(cluster.bootstrap_servers, topic) == load.acknowledged
