"""ZooKeeper is lost, or the way to it: leaders continue, unless they may have lost their leadership."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from kazoo.client import KazooClient

from ottla.testing import Cluster
from tests.cluster.load import Load, check_nothing_lost, report

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SESSION_SECONDS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"zookeeper.session.timeout.ms": str(SESSION_SECONDS * 1000), "min.insync.replicas": "2"}
    with Cluster(3, config=config, log_level="info") as running:
        yield running


def test_leaders_go_on_without_zookeeper_and_all_goes_on_with_it(cluster: Cluster) -> None:
    cluster.create_topic("steady")
    with Load(cluster.bootstrap_servers, "steady", per_second=100) as load:
        load.wait_for(100)
        since = time.monotonic()
        cluster.zookeeper.kill()
        while time.monotonic() < since + 2 * SESSION_SECONDS:  # longer than any session lasts
            load.wait_for(20)
        cluster.zookeeper.restart()
        load.wait_for(100)
    report("Without ZooKeeper", load, since)
    for broker_id in cluster.running():
        cluster.wait_until(
            lambda broker_id=broker_id: "ZooKeeper is back" in said(cluster, broker_id), "it is logged"
        )
    assert "ZooKeeper is unreachable" in said(cluster, 0)
    controller = cluster.controller()
    assert f"[Controller id={controller}] This broker is the controller now" in said(cluster, controller)
    check_nothing_lost(cluster, "steady", load)
    cluster.create_topic("afterwards", 3)
    leader = cluster.leader("steady")
    cluster.kill(leader)
    assert cluster.wait_for_leader("steady", other_than=leader) != leader
    cluster.restart(leader)
    cluster.wait_for_isr("steady", {0, 1, 2})
    # Each leader change appears in the log of the new leader.
    follower = cluster.leader("steady")
    assert f"[Partition steady-0 broker={follower}] Leader in epoch " in said(cluster, follower)
    assert f"[Partition steady-0 broker={follower}] ISR is [" in said(cluster, follower)
    assert "deleted brokers: [" in "".join(said(cluster, each) for each in cluster.ports)


def said(cluster: Cluster, broker_id: int) -> str:
    return cluster.log(broker_id).read_text()


def stored_leader(client: KazooClient) -> int:
    leader: int = json.loads(client.get("/brokers/topics/lost/partitions/0/state")[0])["leader"]
    return leader


def test_a_broker_whose_session_ended_leads_nothing_and_comes_back_by_itself(cluster: Cluster) -> None:
    cluster.create_topic("lost")
    leader = cluster.leader("lost")
    client = KazooClient(cluster.zookeeper.connect)
    client.start()
    try:
        before = client.exists(f"/brokers/ids/{leader}").czxid
        with Load(cluster.bootstrap_servers, "lost") as load:
            load.wait_for(200)
            since = time.monotonic()
            cluster.pause(leader)
            cluster.wait_until(
                lambda: client.exists(f"/brokers/ids/{leader}") is None, "its session has ended"
            )
            # A broker that returns before any decision continues.
            cluster.wait_until(lambda: stored_leader(client) != leader, "another one leads")
            cluster.resume(leader)
            load.wait_for(300)
        print(f"\nSession of {SESSION_SECONDS} s ended: the longest gap was {load.longest_gap(since):.3f} s")
        check_nothing_lost(cluster, "lost", load)
        cluster.wait_for_brokers([0, 1, 2])
        assert client.exists(f"/brokers/ids/{leader}").czxid > before
        assert stored_leader(client) != leader
        cluster.wait_for_isr("lost", {0, 1, 2})
    finally:
        client.stop()
        client.close()


def test_a_broker_that_restarts_within_its_old_session_is_back_in_seconds(cluster: Cluster) -> None:
    cluster.create_topic("quick")
    leader = cluster.leader("quick")
    cluster.kill(leader)
    began = time.monotonic()
    cluster.restart(leader)
    assert time.monotonic() - began < 60
    cluster.wait_for_isr("quick", {0, 1, 2})


def test_two_brokers_of_three_down_refuse_writes_and_serve_reads(cluster: Cluster) -> None:
    cluster.create_topic("alone")
    with Load(cluster.bootstrap_servers, "alone") as load:
        load.wait_for(100)
    survivor = 0
    for broker_id in (1, 2):
        cluster.kill(broker_id)
    cluster.wait_until(lambda: cluster.leader("alone") == survivor, "the last one leads")
    cluster.wait_for_isr("alone", {survivor})
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "retries": 0}
    errors: list[str] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce("alone", b"-1", on_delivery=lambda error, _: errors.append(error.name()))
    producer.flush(20)
    assert errors == ["NOT_ENOUGH_REPLICAS"]
    check_nothing_lost(cluster, "alone", load)
    cluster.restart(1)
    cluster.wait_for_isr("alone", {0, 1})
    with Load(cluster.bootstrap_servers, "alone") as load:
        load.wait_for(10)
    cluster.restart(2)
    cluster.wait_for_isr("alone", {0, 1, 2})


def test_a_paused_broker_loses_what_it_leads_when_its_session_ends(cluster: Cluster) -> None:
    cluster.create_topic("paused")
    leader = cluster.leader("paused")
    with Load(cluster.bootstrap_servers, "paused") as load:
        load.wait_for(200)
        since = time.monotonic()
        cluster.pause(leader)
        try:
            others = [each for each in cluster.ports if each != leader]
            cluster.wait_until(
                lambda: (
                    (view := cluster.partition("paused", broker=others[0])) is not None
                    and view.leader not in (-1, leader)
                ),
                "another one leads",
                60,
            )
        finally:
            cluster.resume(leader)
        load.wait_for(300)
    report("Leader paused until its session ended", load, since)
    check_nothing_lost(cluster, "paused", load)
    cluster.wait_for_isr("paused", {0, 1, 2})
