"""Share groups of a real cluster, with leaders, group coordinators and share coordinators spread over the brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import AcknowledgeType, Message
from kazoo.client import KazooClient

from ottla.metadata import nodes
from ottla.protocol.errors import ErrorCode
from ottla.testing import Cluster
from tests.cluster.live.share_groups import (
    CONFIG,
    GROUP,
    PARTITIONS,
    SESSION_SECONDS,
    STATE_TOPIC,
    coordinator,
    lags,
    produce,
    read,
    share_coordinator,
)
from tests.cluster.live.share_workers import Jobs, Workers, begin_at_the_beginning, poll, share_consumer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config=CONFIG) as running:
        yield running


@pytest.fixture(autouse=True)
def everybody_back(cluster: Cluster) -> Iterator[None]:
    yield
    for broker_id in cluster.ports:
        if broker_id not in cluster.running():
            cluster.restart(broker_id)


def test_what_was_accepted_does_not_come_again_after_the_cluster_was_restarted(cluster: Cluster) -> None:
    cluster.create_topic("restarted", PARTITIONS)
    begin_at_the_beginning(cluster, "restarted")
    for numbers in (range(30), range(30, 60)):
        sent = produce(cluster, "restarted", numbers)
        consumer = share_consumer(cluster, "restarted", "restarted", explicit=True)
        try:
            assert read(consumer, sent, AcknowledgeType.ACCEPT).keys() == sent
        finally:
            consumer.close()
        for broker_id in cluster.ports:
            cluster.restart(broker_id)


KILLED = ["leader killed", "share coordinator killed", "group coordinator killed"]
STRUCK = [*KILLED, "leader paused", "share coordinator paused", "leader stopped"]


@pytest.mark.parametrize(
    ("topic", "faults"),
    [
        ("killed", KILLED),
        pytest.param("struck", STRUCK * 2, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
    ids=["killed", "struck"],
)
def test_every_record_comes_and_none_that_was_accepted_comes_again(
    cluster: Cluster, topic: str, faults: list[str]
) -> None:
    cluster.create_topic(topic, PARTITIONS)
    begin_at_the_beginning(cluster, topic)

    def advance(jobs: Jobs, workers: Workers) -> None:
        """Wait until new records have been accepted in every partition."""
        since = len(jobs.written)

        def accepted() -> bool:
            fresh = [int(value) for value in list(workers.accepted) if int(value) >= since]
            return len({number % PARTITIONS for number in fresh}) == PARTITIONS

        cluster.wait_until(accepted, "records of every partition are accepted", 90)

    with (
        Jobs(cluster, topic, PARTITIONS, per_second=60) as jobs,
        Workers(cluster, topic, topic, 3) as workers,
    ):
        advance(jobs, workers)
        for turn, fault in enumerate(faults):
            with struck(cluster, fault, topic, turn % PARTITIONS):
                advance(jobs, workers)
            for each in range(PARTITIONS):
                cluster.wait_for_isr(STATE_TOPIC, cluster.ports, each, 60)
                cluster.wait_for_isr(topic, cluster.ports, each, 60)
        jobs.stop()
        cluster.wait_until(lambda: jobs.written <= workers.delivered(), "every record has come", 60)
        # A broker may have died before it confirmed an accepted record to the member; the lag includes such records.
        cluster.wait_until(lambda: set(lags(cluster, topic)) == {0}, "every record is done", 60)
        last = jobs.write_more(5 * PARTITIONS)
        cluster.wait_until(lambda: last <= set(workers.accepted), "the last ones are accepted", 60)
        assert workers.after_acceptance() == []
        assert not workers.accepted_again
        assert {delivery.value for delivery in workers.deliveries} == jobs.written
    assert lags(cluster, topic) == [0] * PARTITIONS


@contextmanager
def struck(cluster: Cluster, fault: str, topic: str, partition: int) -> Iterator[None]:
    """The group is named like its topic."""
    whom, _, what = fault.rpartition(" ")
    if whom == "leader":
        broker = cluster.wait_for_leader(topic, partition)
    elif whom == "share coordinator":
        broker = share_coordinator(cluster, topic, topic, partition)
    else:
        broker = coordinator(cluster, topic, GROUP)
    if what == "paused":
        # Other brokers take over when its session expires. Then it resumes, unaware of that.
        cluster.pause(broker)
        time.sleep(1.5 * SESSION_SECONDS)
        cluster.resume(broker)
        yield
        return
    if what == "killed":
        cluster.kill(broker)
    else:
        cluster.stop(broker)
    yield
    cluster.restart(broker)


def test_delivery_counts_outlive_the_leader_and_the_share_coordinator(cluster: Cluster) -> None:
    cluster.create_topic("counted", 1)
    begin_at_the_beginning(cluster, "counted")
    [bad] = produce(cluster, "counted", range(1))
    consumer = share_consumer(cluster, "counted", "counted", explicit=True)
    try:
        for count in range(1, 6):
            message = read(consumer, {bad}, AcknowledgeType.RELEASE)[bad]
            assert message.delivery_count() == count
            if count % 2:
                killed = cluster.wait_for_leader("counted")
            else:
                killed = share_coordinator(cluster, "counted", "counted", 0)
            cluster.kill(killed)
            cluster.restart(killed)
        # The broker archived the record after five deliveries, Kafka's limit.
        [good] = produce(cluster, "counted", range(PARTITIONS, PARTITIONS + 1))
        assert read(consumer, {good}, AcknowledgeType.ACCEPT).keys() == {good}
    finally:
        consumer.close()


def test_what_cannot_be_replicated_is_refused_and_comes_again(cluster: Cluster) -> None:
    cluster.create_topic("alone", 1)
    begin_at_the_beginning(cluster, "alone")
    [first] = produce(cluster, "alone", range(1))
    consumer = share_consumer(cluster, "alone", "alone", explicit=True)
    try:
        read(consumer, {first}, AcknowledgeType.ACCEPT)
        second = produce(cluster, "alone", range(PARTITIONS, PARTITIONS + 1))
        messages: list[Message] = []
        cluster.wait_until(lambda: bool(messages.extend(poll(consumer, 0.5)) or messages), "the record comes")
        leader = cluster.wait_for_leader("alone")
        others = [broker for broker in cluster.ports if broker != leader]
        for broker in others:
            cluster.kill(broker)
        consumer.acknowledge(messages[0], AcknowledgeType.ACCEPT)
        [error] = consumer.commit_sync(60).values()
        assert error is not None
        assert error.args[0].code() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        for broker in others:
            cluster.restart(broker)
        again = read(consumer, second, AcknowledgeType.ACCEPT)
        assert again.keys() == second
        [third] = produce(cluster, "alone", range(2 * PARTITIONS, 2 * PARTITIONS + 1))
        assert read(consumer, {third}, AcknowledgeType.ACCEPT).keys() == {third}
    finally:
        consumer.close()


def test_a_group_begins_where_it_was_told_even_if_its_leader_has_not_heard_of_that(cluster: Cluster) -> None:
    cluster.create_topic("untold", PARTITIONS)
    sent = produce(cluster, "untold", range(30))
    zookeeper = KazooClient(hosts=cluster.zookeeper.connect)
    zookeeper.start()
    try:  # without the notification that makes brokers read it
        config = nodes.encode_config({"share.auto.offset.reset": "earliest"})
        zookeeper.create(nodes.group_config_path("untold"), config, makepath=True)
    finally:
        zookeeper.stop()
        zookeeper.close()
    consumer = share_consumer(cluster, "untold", "untold", explicit=True)
    try:
        assert read(consumer, sent, AcknowledgeType.ACCEPT).keys() == sent
    finally:
        consumer.close()
