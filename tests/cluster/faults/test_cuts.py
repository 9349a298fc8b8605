"""Network cuts between brokers: acknowledged records stay, and an isolated broker acknowledges nothing alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

import confluent_kafka
import pytest

from ottla.client.errors import ClientError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records import Record, build_batch
from ottla.testing import ZOOKEEPER, Cluster
from tests.cluster.load import Load, read_all, report

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
struck = pytest.mark.usefixtures("whole_again")

CONFIG = {
    "zookeeper.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "2000",
    "min.insync.replicas": "2",
}


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config=CONFIG, faults=True) as running:
        yield running


@pytest.fixture
def whole_again(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.heal()
    cluster.wait_for_brokers(cluster.ports)


class PersistentProducer:
    """Writes to one fixed broker, leader or not, one record after another, and notes the responses."""

    def __init__(self, cluster: Cluster, topic: str, broker: int, acks: int = -1) -> None:
        self._cluster, self._topic, self._broker, self._acks = cluster, topic, broker, acks
        [described] = cluster.metadata([topic]).topics
        self._topic_id = described.topic_id
        self.acknowledged: list[int] = []
        self.errors: list[ErrorCode] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 1_000_000  # apart from other writers' numbers
        while not self._stopping.is_set():
            record = Record(0, int(time.time() * 1000), None, str(number).encode(), ())
            data = PartitionProduceData(index=0, records=build_batch([record]))
            topic = TopicProduceData(name=self._topic, topic_id=self._topic_id, partition_data=[data])
            request = ProduceRequest(acks=self._acks, timeout_ms=1000, topic_data=[topic])
            try:
                answer = self._cluster.ask(request, ProduceResponse, broker=self._broker)
            except ClientError:
                continue
            code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
            self.errors.append(code)
            if code is ErrorCode.NONE:
                self.acknowledged.append(number)
            number += 1
            self._stopping.wait(0.005)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()


def view_of(cluster: Cluster, topic: str, broker: int) -> tuple[int, set[int]]:
    view = cluster.partition(topic, broker=broker)
    assert view is not None
    return view.leader, set(view.isr)


def check_nothing_lost(cluster: Cluster, topic: str, load: Load, *more: int) -> None:
    assert load.failed == []
    found = read_all(cluster.bootstrap_servers, topic)
    ours = [number for number in found if number < 1_000_000]
    assert ours == sorted(set(ours)), "something was doubled or reordered"
    assert {*load.acknowledged, *more} <= set(found), "something was lost"


@struck
def test_a_leader_that_is_cut_off_from_everything_acknowledges_nothing(cluster: Cluster) -> None:
    cluster.create_topic("island")
    leader = cluster.leader("island")
    other = (leader + 1) % 3
    with (
        Load(cluster.bootstrap_servers, "island") as load,
        PersistentProducer(cluster, "island", leader) as producer,
    ):
        load.wait_for(100)
        cluster.wait_until(lambda: len(producer.acknowledged) > 5, "it takes records")
        since = time.monotonic()
        cluster.cut(leader)
        cluster.cut(leader, ZOOKEEPER)
        cluster.wait_until(
            lambda: view_of(cluster, "island", other)[0] not in (leader, -1), "another one leads"
        )
        load.wait_for(100)
        before = len(producer.errors)
        cluster.wait_until(lambda: len(producer.errors) > before + 5, "it still answers")
        assert ErrorCode.NONE not in producer.errors[before:]
        cluster.heal()
        cluster.wait_until(lambda: view_of(cluster, "island", other)[1] == {0, 1, 2}, "it is in sync again")
    report("Leader cut off from brokers and ZooKeeper", load, since)
    check_nothing_lost(cluster, "island", load, *producer.acknowledged)


@struck
def test_a_leader_cut_off_from_brokers_alone_takes_no_records_that_only_it_has(cluster: Cluster) -> None:
    cluster.create_topic("lonely")
    leader = cluster.leader("lonely")
    with (
        Load(cluster.bootstrap_servers, "lonely") as load,
        PersistentProducer(cluster, "lonely", leader) as producer,
    ):
        load.wait_for(100)
        since = time.monotonic()
        cluster.cut(leader)
        cluster.wait_until(
            lambda: ErrorCode.NOT_ENOUGH_REPLICAS in producer.errors, "it has too few in sync", 60
        )
        cluster.wait_until(
            lambda: view_of(cluster, "lonely", (leader + 1) % 3) == (leader, {leader}), "others know it", 60
        )
        cluster.heal()
        load.wait_for(100)
    report("Leader cut off from brokers", load, since)
    check_nothing_lost(cluster, "lonely", load, *producer.acknowledged)
    cluster.wait_for_isr("lonely", {0, 1, 2})


@struck
def test_a_follower_that_is_cut_off_leaves_the_isr_and_writes_go_on(cluster: Cluster) -> None:
    cluster.create_topic("followed")
    leader = cluster.leader("followed")
    follower = next(each for each in cluster.ports if each not in (leader, cluster.controller()))
    with Load(cluster.bootstrap_servers, "followed") as load:
        load.wait_for(100)
        since = time.monotonic()
        cluster.cut(follower)
        cluster.wait_for_isr("followed", {0, 1, 2} - {follower})
        load.wait_for(100)
        cluster.heal()
        cluster.wait_for_isr("followed", {0, 1, 2})
    report("Follower cut off from brokers", load, since)
    check_nothing_lost(cluster, "followed", load)


@struck
def test_a_controller_that_loses_zookeeper_is_replaced_and_changes_nothing_more(cluster: Cluster) -> None:
    cluster.create_topic("governed", 3)
    controller = cluster.controller()
    other = (controller + 1) % 3
    with Load(cluster.bootstrap_servers, "governed") as load:
        load.wait_for(100)
        since = time.monotonic()
        cluster.cut(controller, ZOOKEEPER)
        cluster.wait_until(
            lambda: cluster.metadata([], broker=other).controller_id not in (-1, controller),
            "there is another one",
        )
        load.wait_for(100)
        cluster.heal()
        cluster.wait_until(
            lambda: len({cluster.metadata([], broker=each).controller_id for each in cluster.ports}) == 1,
            "all know it",
        )
    report("Controller cut off from ZooKeeper", load, since)
    check_nothing_lost(cluster, "governed", load)


@struck
def test_what_only_gets_through_one_way_does_not_count(cluster: Cluster) -> None:
    """Followers still send fetches, and the leader's responses are lost."""
    cluster.create_topic("mute")
    leader = cluster.leader("mute")
    with (
        Load(cluster.bootstrap_servers, "mute") as load,
        PersistentProducer(cluster, "mute", leader) as producer,
    ):
        load.wait_for(100)
        since = time.monotonic()
        cluster.cut(leader, one_way=True)
        cluster.wait_until(
            lambda: ErrorCode.NOT_ENOUGH_REPLICAS in producer.errors, "it has too few in sync", 60
        )
        cluster.heal()
        load.wait_for(100)
    report("Leader mute", load, since)
    check_nothing_lost(cluster, "mute", load, *producer.acknowledged)
    cluster.wait_for_isr("mute", {0, 1, 2})


@struck
def test_who_only_seems_to_be_gone_does_no_harm_and_comes_back(cluster: Cluster) -> None:
    """Refused connections make each side believe that the other side's process has ended. All decisions stay safe."""
    cluster.create_topic("rumour", 3)
    with Load(cluster.bootstrap_servers, "rumour") as load:
        load.wait_for(100)
        since = time.monotonic()
        cluster.cut(cluster.leader("rumour"), refuse=True)
        time.sleep(4)  # until every broker has reported the others as dead
        cluster.heal()
        load.wait_for(100)
        for each in range(3):
            cluster.wait_for_isr("rumour", {0, 1, 2}, each)
    report("Leader refused by all", load, since)
    check_nothing_lost(cluster, "rumour", load)


def test_the_end_of_a_transaction_reaches_other_brokers_when_the_network_is_whole(
    new_cluster: Callable[..., Cluster],
) -> None:
    alone = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    with new_cluster(3, config=alone, faults=True) as cluster:
        cluster.create_topic("books", 3, replication_factor=1)
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        producer = confluent_kafka.Producer({**servers, "transactional.id": "teller"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("books", b"entry", partition=partition)
        assert producer.flush(30) == 0
        for broker_id in cluster.ports:
            cluster.cut(broker_id)
        producer.commit_transaction(30)  # the coordinator has logged the decision: it will happen
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=["teller"])
        [coordinator] = cluster.ask(asked, FindCoordinatorResponse).coordinators
        near = {each for each in range(3) if cluster.leader("books", each) == coordinator.node_id}
        consumer = confluent_kafka.Consumer(
            {
                **servers,
                "group.id": "auditor",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition("books", each, 0) for each in range(3)])
            seen = {message.partition() for message in consumer.consume(3, timeout=3)}
            assert seen <= near
            cluster.heal()
            while len(seen) < 3:
                message = consumer.poll(30)
                assert message is not None, "the rest has not come"
                assert message.error() is None
                seen.add(message.partition())
        finally:
            consumer.close()
