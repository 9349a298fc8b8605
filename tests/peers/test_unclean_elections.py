"""Promise: an offline partition gets a leader once its topic, or the brokers' default, allows unclean elections."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars, random_cluster_id
from bench.peers.brokers import ottla_command
from bench.peers.clusters import Cluster, ottla_cluster
from bench.rows.metadata import quorum_leader
from tests.installed import kafka_tool

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

SMALL_JVM = ("-Xms192m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def apache_kafka_cluster() -> Cluster:
    """Three brokers; the first is the controller as well and stays up."""
    controller, cluster_id = free_port(), random_cluster_id()
    members = {}
    for node in (1, 2, 3):
        port = free_port()
        listener = f"PLAINTEXT://127.0.0.1:{port}"
        config = {
            "process.roles": "broker,controller" if node == 1 else "broker",
            "node.id": str(node),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller}" if node == 1 else listener,
            # By default its controller looks for such partitions every five minutes.
            "unclean.leader.election.interval.ms": "1000",
        }
        members[node] = ApacheKafka(port=port, config=config, cluster_id=cluster_id, jvm=SMALL_JVM)
    return Cluster(members, find_controller=quorum_leader)


@pytest.fixture(params=["Ottla", "Apache Kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "Ottla":
        made = ottla_cluster(ottla_command(None))
    else:
        try:
            kafka_jars()
        except Unavailable as reason:
            pytest.skip(str(reason))
        made = apache_kafka_cluster()
    try:
        yield made.start()
    finally:
        made.stop()
        made.remove()


def tool(bootstrap: str, name: str, *args: object, input: str | None = None) -> str:
    done = subprocess.run(
        [kafka_tool(name), "--bootstrap-server", bootstrap, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        input=input,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def lose_both(cluster: Cluster, topics: list[str]) -> None:
    """Let broker 2 miss records, kill broker 3 with them, and bring back broker 2 alone."""
    for topic in topics:
        tool(cluster.bootstrap_servers, "console-producer", "--topic", topic, input="early\n")
    stopped, killed = cluster.members.pop(2), cluster.members[3]
    stopped.stop()
    for topic in topics:
        cluster.wait(lambda view: view.partitions[0].isr == (3,), "broker 3 is alone", topic)
        tool(cluster.bootstrap_servers, "console-producer", "--topic", topic, input="late\n")
    del cluster.members[3]
    killed.kill()
    stopped.start()
    cluster.members[2] = stopped
    for topic in topics:
        cluster.wait(lambda view: view.partitions[0].leader == -1, "nobody leads", topic)
    cluster.wait(lambda view: set(view.brokers) == {1, 2}, "broker 3 is gone")


def test_an_offline_partition_is_led_when_unclean_elections_are_allowed(cluster: Cluster) -> None:
    topics = ["by-topic", "by-default"]
    for topic in topics:
        own = ("--config", "min.insync.replicas=1")
        everybody = cluster.bootstrap_servers
        tool(everybody, "topics", "--create", "--topic", topic, "--replica-assignment", "3:2", *own)
        cluster.wait(lambda view: bool(view.partitions), "it is known", topic)
    lose_both(cluster, topics)

    allow = ("--alter", "--add-config", "unclean.leader.election.enable=true")
    left = cluster.bootstrap_servers
    tool(left, "configs", "--entity-type", "topics", "--entity-name", "by-topic", *allow)
    cluster.wait(lambda view: view.partitions[0] == (2, (2,)), "broker 2 leads", "by-topic")
    cluster.wait(lambda view: view.partitions[0].leader == -1, "the other topic waits", "by-default")
    tool(left, "configs", "--entity-type", "brokers", "--entity-default", *allow)
    cluster.wait(lambda view: view.partitions[0] == (2, (2,)), "broker 2 leads", "by-default")
    for topic in topics:
        one = ("--partition", 0, "--offset", 0, "--max-messages", 1, "--timeout-ms", 30_000)
        read = tool(left, "console-consumer", "--topic", topic, *one)
        assert read == "early\n"
        listed = tool(left, "get-offsets", "--topic", topic)
        assert listed == f"{topic}:0:1\n"
