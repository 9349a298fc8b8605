"""Share groups of a member of a cluster: what was accepted stays so when the member comes back."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ottla.testing import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


def produce(cluster: Cluster, numbers: range) -> set[bytes]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in numbers:
        producer.produce("jobs", str(number))
    assert producer.flush(30) == 0
    return {str(number).encode() for number in numbers}


def work(cluster: Cluster, wanted: set[bytes]) -> list[bytes]:
    """Take and accept records until all that are wanted have come; what came."""
    consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    seen: list[bytes] = []
    try:
        consumer.subscribe(["jobs"])
        deadline = time.monotonic() + 40
        while not wanted <= set(seen):
            assert time.monotonic() < deadline, f"{len(wanted - set(seen))} records did not come"
            for message in consumer.poll(0.5):
                assert message.error() is None, message.error()
                seen.append(message.value())
        consumer.commit_sync()
    finally:
        consumer.close()
    return seen


def test_what_was_accepted_does_not_come_again_after_a_restart() -> None:
    with Cluster(1) as cluster:
        cluster.create_topic("jobs", replication_factor=1)
        entry = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ConfigResource.Type.GROUP, "g", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for future in admin.incremental_alter_configs([resource]).values():
            future.result()
        first = produce(cluster, range(20))
        assert set(work(cluster, first)) == first
        cluster.restart(0)
        second = produce(cluster, range(20, 40))
        assert set(work(cluster, second)) == second
