"""The blocking client against a broker that misbehaves on demand."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from ottla.client.cluster import Cluster, TopicPartition, shared_cluster
from ottla.client.coordinators import coordinator_partition
from ottla.client.errors import AdvertisedUnreachable, ClientError, Unreachable
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, commit_offsets, list_offsets
from ottla.client.settings import Settings
from ottla.coordinator.runtime import partition_for
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import read_records
from ottla.testing import Broker

TOPIC = "orders"
FIRST = TopicPartition(TOPIC, 0)
SECOND = TopicPartition(TOPIC, 1)


def settings_of(broker: Broker, **more: str) -> Settings:
    return Settings.from_properties(
        {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": "10", **more}
    )


@pytest.fixture
def broker(fresh_ottla_broker: Broker) -> Broker:
    fresh_ottla_broker.create_topic(TOPIC, partitions=2)
    return fresh_ottla_broker


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    cluster = Cluster(settings_of(broker))
    yield cluster
    cluster.close()


def values(cluster: Cluster, partition: TopicPartition, offset: int) -> list[bytes | None]:
    fetched = PartitionFetcher(cluster, partition, FetchOptions(max_wait_ms=50)).fetch(offset)
    return [record.value for _, records in read_records(fetched.records) for record in records]


def test_topics_that_do_not_exist_are_left_out(broker: Broker, cluster: Cluster) -> None:
    found = cluster.topics([TOPIC, "nothing"])
    assert list(found) == [TOPIC]
    assert found[TOPIC].partitions == [FIRST, SECOND]
    assert found[TOPIC].topic_id == broker.topic_id(TOPIC)


def test_nobody_home_is_said_in_one_sentence() -> None:
    cluster = Cluster(Settings.from_properties({"bootstrap.servers": "127.0.0.1:1"}))
    with pytest.raises(Unreachable, match=r"^Cannot reach a broker at 127.0.0.1:1: is it running\?"):
        cluster.topics()


def test_offsets_by_time(broker: Broker, cluster: Cluster) -> None:
    for timestamp in (1000, 2000, 3000):
        broker.produce(TOPIC, b"x", timestamp=timestamp)
    found = list_offsets(cluster, {FIRST: 1500, SECOND: LATEST})
    assert (found[FIRST].offset, found[FIRST].timestamp) == (1, 2000)
    assert found[SECOND].offset == 0
    assert list_offsets(cluster, {FIRST: 9000})[FIRST].offset == -1
    assert list_offsets(cluster, {FIRST: EARLIEST})[FIRST].offset == 0


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE])
def test_a_leader_that_moved_is_looked_up_again(broker: Broker, cluster: Cluster, error: ErrorCode) -> None:
    broker.produce(TOPIC, b"x")
    broker.fail("ListOffsets", error, times=2)
    assert list_offsets(cluster, {FIRST: LATEST})[FIRST].offset == 1


def test_a_lost_connection_is_opened_again(broker: Broker, cluster: Cluster) -> None:
    cluster.topics()
    broker.drop("ListOffsets", times=2)
    assert list_offsets(cluster, {FIRST: LATEST})[FIRST].offset == 0


def test_retries_end(broker: Broker, cluster: Cluster) -> None:
    broker.fail("ListOffsets", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=1000)
    with pytest.raises(ClientError, match="NOT_LEADER_OR_FOLLOWER") as raised:
        list_offsets(cluster, {FIRST: LATEST}, seconds=0.1)
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_a_retry_does_not_help_is_not_retried(broker: Broker, cluster: Cluster) -> None:
    broker.fail("ListOffsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ClientError, match="Not authorized to access partition orders-0"):
        list_offsets(cluster, {FIRST: LATEST})


def test_fetches_ahead_are_used_and_others_are_dropped(broker: Broker, cluster: Cluster) -> None:
    for number in range(4):
        broker.produce(TOPIC, b"%d" % number)
    fetcher = PartitionFetcher(cluster, FIRST, FetchOptions(max_wait_ms=50))
    fetcher.fetch_ahead(2)
    [(header, _), *_] = read_records(fetcher.fetch(2).records)
    assert header.base_offset == 2
    fetcher.fetch_ahead(3)
    [(header, _), *_] = read_records(fetcher.fetch(0).records)
    assert header.base_offset == 0
    fetcher.fetch_ahead(1)
    fetcher.close()
    assert values(cluster, FIRST, 3) == [b"3"]


def test_a_broker_without_topic_ids_is_asked_by_name(
    broker: Broker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce(TOPIC, b"x")
    monkeypatch.setattr(Cluster, "topic_id", lambda self, topic: bytes(16))
    assert values(cluster, FIRST, 0) == [b"x"]


def test_committed_offsets_are_there_for_all(broker: Broker, cluster: Cluster) -> None:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Assigned

    broker.fail("OffsetCommit", ErrorCode.NOT_COORDINATOR)
    commit_offsets(cluster, "readers", {FIRST: 7, SECOND: 9}, seconds=10)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    committed = consumer.committed([Assigned(TOPIC, 0), Assigned(TOPIC, 1)], timeout=20)
    consumer.close()
    assert [each.offset for each in committed] == [7, 9]


def test_connections_are_shared_by_those_who_come_one_after_another(broker: Broker) -> None:
    settings = settings_of(broker)
    with shared_cluster(settings) as first:
        first.topics()
    with shared_cluster(settings) as second, shared_cluster(settings) as third:
        assert second is first
        assert third is not first  # both connections are in use
    with shared_cluster(settings) as last:
        last.close()


def test_a_forked_process_opens_its_own_connections(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(broker)
    with shared_cluster(settings) as mine:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with shared_cluster(settings) as other:
        assert other is not mine


def test_a_restarted_broker_is_found_again(broker: Broker, cluster: Cluster) -> None:
    broker.produce(TOPIC, b"x")
    assert list_offsets(cluster, {FIRST: LATEST})[FIRST].offset == 1
    broker.restart()
    started = time.monotonic()
    assert list_offsets(cluster, {FIRST: LATEST})[FIRST].offset == 1
    assert time.monotonic() - started < 10


def test_a_broker_that_advertises_a_wrong_address_is_told_from_one_that_is_down() -> None:
    """Producers and consumers check the address first; a client that can use any broker keeps the first connection."""
    with Broker(config={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as broker:
        cluster = Cluster(settings_of(broker))
        try:
            assert cluster.topics() == {}
            with pytest.raises(AdvertisedUnreachable) as caught:
                cluster.check_advertised()
        finally:
            cluster.close()
    assert caught.value.is_retriable
    assert caught.value.message.startswith(
        f"{broker.bootstrap_servers} answered, but broker 0 advertises 127.0.0.1:1, which cannot be reached from here: "
    )
    assert caught.value.message.endswith("If it is running, its advertised.listeners is wrong.")


@pytest.mark.parametrize("key", ["", "g", "group-42", "polygenelubricants", "žluťoučký", "😀:x:0"])
def test_the_partition_of_a_coordinator_is_the_one_that_the_broker_computes(key: str) -> None:
    """One of the names has the hash code without an absolute value (Integer.MIN_VALUE)."""
    assert coordinator_partition(key, 50) == partition_for(key, 50)


def test_a_shared_cluster_connects_again_after_an_idle_time() -> None:
    with Broker(config={"connections.max.idle.ms": "500"}) as broker:
        for _ in range(2):
            with shared_cluster(settings_of(broker)) as cluster:
                connection = cluster.any_connection()
                assert cluster.metadata(()).brokers
            deadline = time.monotonic() + 30
            while connection.check():
                assert time.monotonic() < deadline, "the broker closes idle connections"
                time.sleep(0.05)
