"""Groups and transactions of a real cluster, with coordinators, partitions and clients spread over the brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.testing import Cluster
from tests.broker.apis.streams_wire import StreamsWire
from tests.wire_client import WireClient

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3) as running:
        yield running


@pytest.fixture(autouse=True)
def everybody_back(cluster: Cluster) -> Iterator[None]:
    yield
    for broker_id in cluster.ports:
        if broker_id not in cluster.running():
            cluster.restart(broker_id)


def coordinator(cluster: Cluster, key: str, key_type: int) -> int:
    """Return the coordinator once one exists."""
    found: list[int] = []

    def known() -> bool:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = cluster.ask(request, FindCoordinatorResponse).coordinators[0]
        found[:] = [answer.node_id]
        return not answer.error_code

    cluster.wait_until(known, f"a coordinator of {key}")
    return found[0]


def producer(cluster: Cluster, transactional_id: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
        }
    )
    made.init_transactions(60)
    return made


def write(made: confluent_kafka.Producer, topic: str, value: str) -> None:
    for partition in range(PARTITIONS):
        made.produce(topic, f"{value}-{partition}".encode(), partition=partition)


def committed_values(cluster: Cluster, topic: str) -> list[str]:
    """Return the values that a read_committed consumer finds up to the current last stable offsets."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        values: list[str] = []
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(100, timeout=1):
                error: Any = message.error()
                if error is None:
                    values.append(message.value().decode())
                    ended.discard(message.partition())
                else:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
        return values
    finally:
        consumer.close()


def all_of(*values: str) -> list[str]:
    return sorted(f"{value}-{partition}" for value in values for partition in range(PARTITIONS))


def test_a_transaction_over_partitions_of_all_brokers_counts_as_a_whole(cluster: Cluster) -> None:
    cluster.create_topic("whole", partitions=PARTITIONS)
    made = producer(cluster, "whole")
    for value in ("a", "b", "c"):
        made.begin_transaction()
        write(made, "whole", value)
        if value == "b":
            made.flush()
            made.abort_transaction(60)
        else:
            made.commit_transaction(60)
    assert sorted(committed_values(cluster, "whole")) == all_of("a", "c")


def test_a_transaction_is_ended_by_the_next_coordinator(cluster: Cluster) -> None:
    cluster.create_topic("failover", partitions=PARTITIONS)
    made = producer(cluster, "failover")
    made.begin_transaction()
    write(made, "failover", "a")
    made.commit_transaction(60)
    made.begin_transaction()
    write(made, "failover", "b")
    made.flush()
    before = coordinator(cluster, "failover", 1)
    cluster.kill(before)
    cluster.wait_until(lambda: coordinator(cluster, "failover", 1) != before, "another coordinator")
    made.commit_transaction(60)
    made.begin_transaction()
    write(made, "failover", "c")
    made.commit_transaction(60)
    assert sorted(committed_values(cluster, "failover")) == all_of("a", "b", "c")


def test_offsets_of_a_transaction_count_with_it(cluster: Cluster) -> None:
    cluster.create_topic("in", partitions=PARTITIONS)
    cluster.create_topic("out", partitions=PARTITIONS)
    made = producer(cluster, "copy")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "copiers", "enable.auto.commit": False}
    )
    try:
        partitions = [TopicPartition("in", partition, 0) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        for offset, commit in ((3, True), (7, False), (9, True)):
            made.begin_transaction()
            write(made, "out", f"o{offset}")
            offsets = [TopicPartition("in", partition, offset) for partition in range(PARTITIONS)]
            made.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
            if commit:
                made.commit_transaction(60)
            else:
                made.abort_transaction(60)
            wanted = 3 if offset == 7 else offset
            assert [each.offset for each in consumer.committed(partitions, 30)] == [wanted] * PARTITIONS
        cluster.kill(coordinator(cluster, "copiers", 0))
        assert [each.offset for each in consumer.committed(partitions, 60)] == [9] * PARTITIONS
    finally:
        consumer.close()
    assert sorted(committed_values(cluster, "out")) == all_of("o3", "o9")


def test_a_group_goes_on_where_it_was_when_its_coordinator_dies(cluster: Cluster) -> None:
    cluster.create_topic("work", partitions=1)
    made = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(100):
        made.produce("work", str(number).encode(), partition=0)
    assert made.flush(60) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "workers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe(["work"])
    try:
        seen: list[int] = []
        while len(seen) < 40:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                seen.append(int(message.value()))
        consumer.commit(asynchronous=False)
        before = coordinator(cluster, "workers", 0)
        cluster.kill(before)
        while len(seen) < 100:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                seen.append(int(message.value()))
        assert sorted(set(seen)) == list(range(100))
        cluster.wait_until(lambda: coordinator(cluster, "workers", 0) != before, "another coordinator")
        assert consumer.committed([TopicPartition("work", 0)], 30)[0].offset == 40
        consumer.commit(asynchronous=False)
        assert consumer.committed([TopicPartition("work", 0)], 30)[0].offset == 100
    finally:
        consumer.close()


def test_a_streams_group_goes_on_at_the_next_coordinator(cluster: Cluster) -> None:
    """The epochs, the tasks and the pending revocations survive a kill of the coordinator during a rebalance."""
    for name in ("streams-in", "streams-repartition", "streams-changelog"):
        cluster.create_topic(name, partitions=2)
    before = coordinator(cluster, "streams", 0)
    with WireClient(f"127.0.0.1:{cluster.ports[before]}") as client:
        wire = StreamsWire(client, "streams", "streams-in")
        assert wire.join("m1") == (2, [], {"0": [0, 1], "1": [0, 1]})
        assert wire.join("m2") == (3, [], {})
        assert wire.heartbeat("m1", 2) == (2, [], {"0": [0], "1": [0]})
    cluster.kill(before)
    cluster.wait_until(lambda: coordinator(cluster, "streams", 0) != before, "another coordinator")
    after = coordinator(cluster, "streams", 0)
    with WireClient(f"127.0.0.1:{cluster.ports[after]}") as client:
        wire = StreamsWire(client, "streams", "streams-in")
        assert wire.summary() == ("Reconciling", 3, 3, {"m1": 2, "m2": 3})
        assert wire.heartbeat("m2", 3) == (3, [], None), "what it waits for has not been given up"
        assert wire.heartbeat("m1", 2, {"0": [0], "1": [0]}) == (3, [], None)
        assert wire.heartbeat("m2", 3) == (3, [], {"0": [1], "1": [1]})
