"""ZooKeeper's servers lose contact: brokers move to the majority, and keep leading if there is none."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pytest

from ottla.jvm.zookeeper import four_letter_word
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.testing import Cluster, ZooKeeper
from tests.cluster.load import Load, check_nothing_lost

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

SESSION_SECONDS = 3


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper(3, faults=True) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper) -> Iterator[Cluster]:
    config = {
        "zookeeper.session.timeout.ms": str(SESSION_SECONDS * 1000),
        "min.insync.replicas": "2",
        "default.replication.factor": "3",
    }
    with Cluster(3, config=config, zookeeper=zookeeper) as running:
        yield running


@pytest.fixture(autouse=True)
def whole_again(cluster: Cluster, zookeeper: ZooKeeper) -> Iterator[None]:
    yield
    zookeeper.heal()
    wait_for_servers(cluster, zookeeper, zookeeper.servers)
    cluster.wait_for_brokers(cluster.ports)


def wait_for_servers(cluster: Cluster, zookeeper: ZooKeeper, serving: Iterable[int]) -> None:
    """Wait until exactly these servers serve."""
    wanted = set(serving)
    cluster.wait_until(
        lambda: {number for number, server in zookeeper.servers.items() if server.serves()} == wanted,
        f"ZooKeeper's servers {sorted(wanted)} serve",
    )


def let_a_broker_come_to(cluster: Cluster, zookeeper: ZooKeeper, number: int) -> None:
    """Reconnect a broker until it chooses this server. The choice is random."""
    server = zookeeper.servers[number]
    deadline = time.monotonic() + 90
    while "sid=" not in (four_letter_word(server.host, server.port, "cons") or ""):
        assert time.monotonic() < deadline, "nobody comes to this server"
        cluster.restart(0)


def create_topic_at(cluster: Cluster, broker: int, name: str) -> None:
    """Create a topic through this broker. Every broker writes its own topics to ZooKeeper."""

    def created() -> bool:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
        answer = cluster.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, broker=broker)
        return answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    cluster.wait_until(created, f"broker {broker} can create {name}", 60)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_brokers_of_a_server_that_is_cut_off_go_to_the_majority(
    cluster: Cluster, zookeeper: ZooKeeper, role: str
) -> None:
    cluster.create_topic(f"cut-{role}")
    leader = zookeeper.leader()
    assert leader is not None
    cut_off = leader if role == "leader" else next(each for each in zookeeper.servers if each != leader)
    majority = set(zookeeper.servers) - {cut_off}
    let_a_broker_come_to(cluster, zookeeper, cut_off)
    cluster.wait_for_isr(f"cut-{role}", {0, 1, 2})
    with Load(cluster.bootstrap_servers, f"cut-{role}") as load:
        load.wait_for(100)
        since = time.monotonic()
        zookeeper.cut(cut_off)
        wait_for_servers(cluster, zookeeper, majority)
        assert zookeeper.leader() in majority
        for broker in cluster.ports:
            create_topic_at(cluster, broker, f"asked-of-{broker}-without-{role}")
        load.wait_for(100)
        zookeeper.heal()
        wait_for_servers(cluster, zookeeper, zookeeper.servers)
        load.wait_for(100)
    print(f"\nZooKeeper's {role} cut off: the longest gap was {load.longest_gap(since):.3f} s")
    check_nothing_lost(cluster, f"cut-{role}", load)


def test_leaders_go_on_where_no_server_of_zookeeper_has_a_majority(
    cluster: Cluster, zookeeper: ZooKeeper
) -> None:
    cluster.create_topic("alone")
    before = cluster.partition("alone")
    assert before is not None
    with Load(cluster.bootstrap_servers, "alone", per_second=100) as load:
        load.wait_for(100)
        since = time.monotonic()
        for server in zookeeper.servers:
            zookeeper.cut(server)
        wait_for_servers(cluster, zookeeper, [])
        noticed = time.monotonic()
        while time.monotonic() < noticed + 2 * SESSION_SECONDS:  # longer than any session lasts
            load.wait_for(20)
        after = cluster.partition("alone")
        assert after == before, "somebody was elected without a majority"
        zookeeper.heal()
        wait_for_servers(cluster, zookeeper, zookeeper.servers)
        load.wait_for(100)
    print(f"\nZooKeeper without a majority: the longest gap was {load.longest_gap(since):.3f} s")
    check_nothing_lost(cluster, "alone", load)
    for broker in cluster.ports:
        create_topic_at(cluster, broker, f"afterwards-{broker}")
    leader = cluster.leader("alone")
    cluster.kill(leader)
    cluster.wait_for_leader("alone", other_than=leader)
    cluster.restart(leader)
    cluster.wait_for_isr("alone", {0, 1, 2})
