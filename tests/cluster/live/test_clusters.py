"""Three broker processes and a real ZooKeeper: acknowledged records survive the death of any process."""

from __future__ import annotations

import json
import time

import pytest
from kazoo.client import KazooClient

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.protocol.messages.replicas import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.testing import Cluster
from tests.cluster.load import Load, check_nothing_lost, report

pytestmark = [pytest.mark.usefixtures("everybody_back"), pytest.mark.cluster, pytest.mark.timeout(300)]


# Responses of the brokers


def test_zookeeper_shows_what_people_expect(cluster: Cluster, zookeeper: KazooClient) -> None:
    assert sorted(zookeeper.get_children("/brokers/ids")) == ["0", "1", "2"]
    data, stat = zookeeper.get("/controller")
    controller = json.loads(data)
    assert controller["brokerid"] == cluster.controller()
    assert stat.ephemeralOwner
    registration = json.loads(zookeeper.get("/brokers/ids/1")[0])
    assert registration["endpoints"] == [f"PLAINTEXT://127.0.0.1:{cluster.ports[1]}"]
    assert registration["port"] == cluster.ports[1]
    assert len(json.loads(zookeeper.get("/cluster/id")[0])["id"]) == 22


def test_every_broker_tells_the_same(cluster: Cluster) -> None:
    cluster.create_topic("told", 6)
    answers = [cluster.metadata(["told"], broker=broker) for broker in cluster.ports]
    for answer in answers:
        assert {broker.node_id for broker in answer.brokers} == {0, 1, 2}
        assert answer.controller_id == answers[0].controller_id
        assert answer.cluster_id == answers[0].cluster_id
        assert answer.topics[0].topic_id == answers[0].topics[0].topic_id
    described = cluster.ask(DescribeClusterRequest(), DescribeClusterResponse, broker=1)
    assert {broker.broker_id for broker in described.brokers} == {0, 1, 2}
    leaders = [partition.leader_id for partition in answers[0].topics[0].partitions]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]


def test_groups_are_found_where_their_partition_is_led(cluster: Cluster) -> None:
    def coordinators(broker: int) -> list[tuple[int, int]]:
        keys = [f"group-{number}" for number in range(20)]
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
        answer = cluster.ask(request, FindCoordinatorResponse, broker=broker)
        return [(each.error_code, each.node_id) for each in answer.coordinators]

    cluster.wait_until(
        lambda: all(code == 0 for broker in cluster.ports for code, _ in coordinators(broker)),
        "every group has a coordinator",
    )
    found = [coordinators(broker) for broker in cluster.ports]
    assert found[0] == found[1] == found[2]
    assert {node for _, node in found[0]} == {0, 1, 2}


def test_partitions_are_added_by_whichever_broker_is_asked(cluster: Cluster) -> None:
    cluster.create_topic("growing", 1)
    for broker in cluster.ports:
        topic = CreatePartitionsTopic(name="growing", count=broker + 2, assignments=None)
        answer = cluster.ask(
            CreatePartitionsRequest(topics=[topic], timeout_ms=10_000),
            CreatePartitionsResponse,
            broker=broker,
        )
        assert answer.results[0].error_code == ErrorCode.NONE
    for broker in cluster.ports:
        cluster.wait_until(lambda broker=broker: cluster._is_led("growing", 4, broker), "all know")


def test_a_preferred_leader_is_elected_when_asked_for(cluster: Cluster) -> None:
    cluster.create_topic("preferred")
    view = cluster.partition("preferred")
    assert view is not None
    preferred = view.replicas[0]
    cluster.stop(preferred)
    cluster.wait_for_leader("preferred", other_than=preferred)
    cluster.restart(preferred)
    cluster.wait_for_isr("preferred", view.replicas)
    topics = [TopicPartitions(topic="preferred", partitions=[0])]
    request = ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout_ms=10_000)
    answer = cluster.ask(request, ElectLeadersResponse)
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
    cluster.wait_until(lambda: cluster.leader("preferred") == preferred, "it leads")


# Survival


def test_nothing_is_lost_when_the_leader_is_killed(cluster: Cluster) -> None:
    cluster.create_topic("killed")
    leader = cluster.leader("killed")
    with Load(cluster.bootstrap_servers, "killed") as load:
        load.wait_for(300)
        since = time.monotonic()
        cluster.kill(leader)
        load.wait_for(300)
        assert cluster.wait_for_leader("killed", other_than=leader) != leader
    report("Leader killed with SIGKILL", load, since)
    check_nothing_lost(cluster, "killed", load)
    cluster.restart(leader)
    cluster.wait_for_isr("killed", {0, 1, 2})


def test_nothing_is_lost_when_the_leader_is_stopped(cluster: Cluster) -> None:
    cluster.create_topic("stopped")
    leader = cluster.leader("stopped")
    with Load(cluster.bootstrap_servers, "stopped") as load:
        load.wait_for(300)
        since = time.monotonic()
        assert cluster.stop(leader) == 0
        load.wait_for(300)
    report("Leader stopped with SIGTERM", load, since)
    check_nothing_lost(cluster, "stopped", load)
    view = cluster.partition("stopped")
    assert view is not None
    assert leader not in view.isr
    cluster.restart(leader)
    cluster.wait_for_isr("stopped", {0, 1, 2})


def test_nothing_is_lost_when_the_controller_is_killed(cluster: Cluster, zookeeper: KazooClient) -> None:
    controller = cluster.controller()
    epoch = int(zookeeper.get("/controller_epoch")[0])
    cluster.create_topic("orphaned", 3)
    # A partition that it leads as well, so that its successor has to move it.
    with Load(cluster.bootstrap_servers, "orphaned") as load:
        load.wait_for(200)
        since = time.monotonic()
        cluster.kill(controller)
        load.wait_for(300)
        cluster.wait_until(
            lambda: cluster.controller() not in (-1, controller), "there is another controller"
        )
        cluster.wait_until(
            lambda: all(cluster.leader("orphaned", each) not in (-1, controller) for each in range(3)),
            "all are led",
        )
    report("Controller killed with SIGKILL", load, since)
    assert json.loads(zookeeper.get("/controller")[0])["brokerid"] == cluster.controller()
    assert int(zookeeper.get("/controller_epoch")[0]) == epoch + 1
    cluster.wait_until(
        lambda: str(controller) not in zookeeper.get_children("/brokers/ids"), "its registration is gone"
    )
    check_nothing_lost(cluster, "orphaned", load)


def test_a_killed_follower_does_not_hold_up_producers(cluster: Cluster) -> None:
    cluster.create_topic("followed")
    leader = cluster.leader("followed")
    follower = (leader + 1) % 3
    with Load(cluster.bootstrap_servers, "followed") as load:
        load.wait_for(200)
        since = time.monotonic()
        cluster.kill(follower)
        load.wait_for(300)
    report("Follower killed with SIGKILL", load, since)
    view = cluster.partition("followed")
    assert view is not None
    assert (view.leader, view.leader_epoch) == (leader, 0)
    check_nothing_lost(cluster, "followed", load)


def test_a_topic_deleted_while_a_broker_is_down_is_gone_from_it_when_it_returns(cluster: Cluster) -> None:
    cluster.create_topic("doomed", 2)
    cluster.kill(2)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=20_000)
    answer = cluster.ask(request, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    assert (cluster.directory(2) / "doomed-0").is_dir()
    cluster.wait_until(
        lambda: 2 not in {broker.node_id for broker in cluster.metadata([]).brokers}, "all know it is gone"
    )
    cluster.create_topic("doomed", 1, replication_factor=2)  # another topic of the same name
    cluster.restart(2)
    assert not (cluster.directory(2) / "doomed-0").exists()
    assert not (cluster.directory(2) / "doomed-1").exists()


def test_all_brokers_stop_and_start_and_nothing_is_lost(cluster: Cluster) -> None:
    cluster.create_topic("everything", 1)
    with Load(cluster.bootstrap_servers, "everything") as load:
        load.wait_for(300)
    for broker_id in cluster.ports:
        cluster.kill(broker_id)
    for broker_id in cluster.ports:
        cluster._launch(broker_id)
    cluster.wait_for_brokers(list(cluster.ports))
    cluster.wait_for_leader("everything")
    check_nothing_lost(cluster, "everything", load)
    cluster.wait_for_isr("everything", {0, 1, 2})


def test_when_all_die_and_the_controller_stays_away_the_others_do_not_wait_for_its_session(
    cluster: Cluster,
) -> None:
    cluster.create_topic("left", 6)
    away = cluster.controller()
    others = [each for each in cluster.ports if each != away]
    with Load(cluster.bootstrap_servers, "left") as load:
        load.wait_for(100)
    for broker_id in cluster.ports:
        cluster.kill(broker_id)
    began = time.monotonic()
    for broker_id in others:
        cluster._launch(broker_id)
    cluster.wait_for_brokers(others)
    cluster.wait_until(
        lambda: all(cluster.leader("left", each) in others for each in range(6)), "all are led"
    )
    assert time.monotonic() - began < 17, "a session lasts 18 s"
    check_nothing_lost(cluster, "left", load)
