"""A full disk on one of three brokers: the others continue, no record is lost, and freed space brings it back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from ottla.testing import Cluster
from tests.cluster.load import Load, check_nothing_lost

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config={"min.insync.replicas": "2"}, faults=True) as running:
        yield running


@pytest.fixture(autouse=True)
def space_again(cluster: Cluster) -> Iterator[None]:
    yield
    for broker_id in cluster.ports:
        cluster.free_disk(broker_id)


def test_others_lead_when_the_disk_of_the_leader_is_full(cluster: Cluster) -> None:
    cluster.create_topic("led")
    leader = cluster.leader("led")
    with Load(cluster.bootstrap_servers, "led") as load:
        load.wait_for(200)
        since = time.monotonic()
        cluster.fill_disk(leader)
        cluster.wait_for_leader("led", other_than=leader)
        cluster.wait_for_isr("led", {0, 1, 2} - {leader})
        load.wait_for(300)
        print(f"\nDisk of the leader full: the longest gap was {load.longest_gap(since):.3f} s")
        cluster.free_disk(leader)
        cluster.restart(leader)
        cluster.wait_for_isr("led", {0, 1, 2})
    check_nothing_lost(cluster, "led", load)


def test_nobody_waits_for_a_follower_whose_disk_is_full(cluster: Cluster) -> None:
    cluster.create_topic("followed")
    leader = cluster.leader("followed")
    follower = (leader + 1) % 3
    with Load(cluster.bootstrap_servers, "followed") as load:
        load.wait_for(200)
        since = time.monotonic()
        cluster.fill_disk(follower)
        cluster.wait_for_isr("followed", {0, 1, 2} - {follower})
        load.wait_for(300)
        assert load.longest_gap(since) < 20, "less than replica.lag.time.max.ms"
        print(f"\nDisk of a follower full: the longest gap was {load.longest_gap(since):.3f} s")
        assert cluster.leader("followed") == leader
        cluster.free_disk(follower)  # no restart needed
        cluster.wait_for_isr("followed", {0, 1, 2})
    check_nothing_lost(cluster, "followed", load)


def test_a_broker_that_dies_on_a_full_disk_is_whole_again_when_it_starts_with_space(cluster: Cluster) -> None:
    cluster.create_topic("restarted")
    leader = cluster.leader("restarted")
    with Load(cluster.bootstrap_servers, "restarted") as load:
        load.wait_for(100)
        cluster.fill_disk(leader)
        cluster.wait_for_leader("restarted", other_than=leader)
        cluster.kill(leader)
        cluster.restart(leader)  # a log that cannot be recovered is offline
        load.wait_for(100)
        cluster.free_disk(leader)
        cluster.restart(leader)
        cluster.wait_for_isr("restarted", {0, 1, 2})
    check_nothing_lost(cluster, "restarted", load)


def test_where_all_disks_are_full_records_are_refused_and_taken_when_there_is_space(cluster: Cluster) -> None:
    cluster.create_topic("stuffed")
    with Load(cluster.bootstrap_servers, "stuffed") as load:
        load.wait_for(100)
        for broker_id in cluster.ports:
            cluster.fill_disk(broker_id)
        time.sleep(3)
        view = cluster.partition("stuffed")
        assert view is not None
        assert view.leader_epoch <= 3, "leaderships go round and round"
        known = len(load.acknowledged)
        for broker_id in cluster.ports:
            cluster.free_disk(broker_id)
        load.wait_for(100)
        assert len(load.acknowledged) > known
        cluster.wait_for_isr("stuffed", {0, 1, 2})
    check_nothing_lost(cluster, "stuffed", load)
