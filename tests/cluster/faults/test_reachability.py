"""Cuts of every single link and every single broker: reachable partitions stay available, and the cluster heals itself.

docs/how-to/run-a-cluster.md names the exception: the partitions of a leader that reaches ZooKeeper, while packets to
all other brokers vanish. If connections are refused instead, the cluster notices immediately and elects other leaders.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import pytest

from ottla.protocol.messages.replicas import ElectLeadersRequest, ElectLeadersResponse
from ottla.testing import ZOOKEEPER, Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TOPIC = "served"
CONFIG = {
    "zookeeper.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "2000",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}


class Writer:
    """Writes to all partitions like an application, with acks=all."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 200,
                "reconnect.backoff.max.ms": 500,
                "request.timeout.ms": 3000,
                "topic.metadata.refresh.interval.ms": 500,
                "message.timeout.ms": 120_000,
            }
        )
        self._cluster = cluster

    def write(self, partitions: set[int], seconds: float = 60) -> float:
        """Return the time until each partition has accepted one more record."""
        began, taken = time.monotonic(), set[int]()

        def told(error: Any, message: Any) -> None:
            assert error is None, error
            taken.add(message.partition())

        for partition in partitions:
            self._producer.produce(TOPIC, b"x", partition=partition, on_delivery=told)

        def acknowledged() -> bool:
            self._producer.poll(0)
            return taken >= partitions

        self._cluster.wait_until(acknowledged, f"partitions {sorted(partitions)} take records", seconds)
        return time.monotonic() - began


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(3, config=CONFIG, faults=True) as running:
        running.create_topic(TOPIC, 6)
        yield running


@pytest.fixture(scope="module")
def writer(cluster: Cluster) -> Writer:
    return Writer(cluster)


@dataclass
class Seen:
    """The state before a cut."""

    controller: int
    leaders: dict[int, int]
    epochs: dict[int, int] = field(default_factory=dict)


def look(cluster: Cluster) -> Seen:
    [topic] = cluster.metadata([TOPIC]).topics
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    epochs = {each.partition_index: each.leader_epoch for each in topic.partitions}
    return Seen(cluster.controller(), leaders, epochs)


def mend(cluster: Cluster, writer: Writer) -> Seen:
    """Wait until the cluster has healed after the cut; afterwards each broker leads two partitions."""
    cluster.heal()
    cluster.wait_for_brokers(cluster.ports)
    for partition in range(6):
        cluster.wait_for_isr(TOPIC, cluster.ports, partition, 60)
    cluster.wait_until(lambda: knows_one_controller(cluster), "all know the controller", 60)
    writer.write(set(range(6)))
    cluster.wait_until(lambda: spread(cluster), "each leads two", 60)
    return look(cluster)


def knows_one_controller(cluster: Cluster) -> bool:
    known = {cluster.metadata([], broker=each).controller_id for each in cluster.ports}
    return len(known) == 1 and -1 not in known


def spread(cluster: Cluster) -> bool:
    """Request preferred leader elections until every broker knows the result."""
    request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000)
    cluster.ask(request, ElectLeadersResponse)
    for broker in cluster.ports:
        [topic] = cluster.metadata([TOPIC], broker=broker).topics
        leaders = [each.leader_id for each in topic.partitions]
        if any(leaders.count(each) != 2 for each in cluster.ports):
            return False
    return True


Cut = Callable[[Cluster, int, int], None]  # (cluster, broker, other broker)

LINKS: dict[str, Cut] = {
    "silent": lambda cluster, one, other: cluster.cut(one, other),
    "mute": lambda cluster, one, other: cluster.cut(one, other, one_way=True),
    "deaf": lambda cluster, one, other: cluster.cut(other, one, one_way=True),
    "refused": lambda cluster, one, other: cluster.cut(one, other, refuse=True),
}


def others(cluster: Cluster, one: int) -> set[int]:
    return set(cluster.ports) - {one}


ISLANDS: dict[str, Cut] = {
    "silent": lambda cluster, one, _: cluster.cut(one),
    "mute": lambda cluster, one, _: cluster.cut(one, one_way=True),
    "deaf": lambda cluster, one, _: cluster.cut(others(cluster, one), one, one_way=True),
    "refused": lambda cluster, one, _: cluster.cut(one, refuse=True),
}


def deafen_to_zookeeper(cluster: Cluster, one: int, _: int) -> None:
    assert cluster._network is not None
    cluster._network.cut(ZOOKEEPER, one)


STORES: dict[str, Cut] = {
    "silent": lambda cluster, one, _: cluster.cut(one, ZOOKEEPER),
    "mute": lambda cluster, one, _: cluster.cut(one, ZOOKEEPER, one_way=True),
    "deaf": deafen_to_zookeeper,
    "refused": lambda cluster, one, _: cluster.cut(one, ZOOKEEPER, refuse=True),
}


def from_all(refuse: bool) -> Cut:
    def cut(cluster: Cluster, one: int, _: int) -> None:
        cluster.cut(one, refuse=refuse)
        cluster.cut(one, ZOOKEEPER, refuse=refuse)

    return cut


EVERYTHING: dict[str, Cut] = {"silent": from_all(False), "refused": from_all(True)}

slow = pytest.mark.slow


def cases(cuts: dict[str, Cut]) -> list[Any]:
    """Return refusals for every test run, and the other cuts for slow runs only."""
    return [pytest.param(cut, id=how, marks=[] if how == "refused" else slow) for how, cut in cuts.items()]


@pytest.mark.parametrize("of_controller", [True, False], ids=["controller", "member"])
@pytest.mark.parametrize("cut", cases(LINKS))
def test_one_link_that_is_cut_stops_nobody(
    cluster: Cluster, writer: Writer, cut: Cut, of_controller: bool
) -> None:
    before = mend(cluster, writer)
    one, other = sorted(others(cluster, before.controller))
    if of_controller:
        one = before.controller
    cut(cluster, one, other)
    print(f"\nlink: {writer.write(set(range(6))):.1f} s")
    if cut is LINKS["refused"]:
        time.sleep(4)  # by then a broker presumed dead has lost its registration
    after = look(cluster)
    assert after == before, "somebody was deposed who lives"
    assert {each.node_id for each in cluster.metadata([]).brokers} == set(cluster.ports)
    mend(cluster, writer)


@pytest.mark.slow  # on an overloaded machine an isolated broker takes all others for dead
@pytest.mark.parametrize("of_controller", [True, False], ids=["controller", "member"])
@pytest.mark.parametrize("cut", ISLANDS.values(), ids=ISLANDS)
def test_a_broker_cut_off_from_the_others_stops_nobody_else(
    cluster: Cluster, writer: Writer, cut: Cut, of_controller: bool
) -> None:
    before = mend(cluster, writer)
    one = before.controller if of_controller else min(others(cluster, before.controller))
    cut(cluster, one, -1)
    left = {each for each, leader in before.leaders.items() if leader != one}
    if cut is ISLANDS["refused"]:
        left = set(before.leaders)
    print(f"\nisland: {writer.write(left):.1f} s")
    after = look(cluster)
    for partition, leader in before.leaders.items():
        if leader != one:
            assert after.leaders[partition] == leader, "somebody was deposed who is in reach of others"
    if cut is ISLANDS["refused"]:
        assert after.controller != one
    mend(cluster, writer)


@pytest.mark.parametrize("of_controller", [True, False], ids=["controller", "member"])
@pytest.mark.parametrize("cut", cases(STORES))
def test_a_broker_that_loses_zookeeper_stops_nobody(
    cluster: Cluster, writer: Writer, cut: Cut, of_controller: bool
) -> None:
    before = mend(cluster, writer)
    one = before.controller if of_controller else min(others(cluster, before.controller))
    cut(cluster, one, -1)
    print(f"\nzookeeper: {writer.write(set(range(6))):.1f} s")
    other = min(others(cluster, one))
    cluster.wait_until(
        lambda: cluster.metadata([], broker=other).controller_id in others(cluster, one),
        "another one is the controller",
    )
    writer.write(set(range(6)))
    mend(cluster, writer)


@pytest.mark.parametrize("of_controller", [True, False], ids=["controller", "member"])
@pytest.mark.parametrize("cut", cases(EVERYTHING))
def test_a_broker_cut_off_from_everything_stops_nobody(
    cluster: Cluster, writer: Writer, cut: Cut, of_controller: bool
) -> None:
    before = mend(cluster, writer)
    one = before.controller if of_controller else min(others(cluster, before.controller))
    cut(cluster, one, -1)
    print(f"\neverything: {writer.write(set(range(6))):.1f} s")
    mend(cluster, writer)
