"""`ottla cluster roll`, the probes and the hand-over of three brokers under load."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from confluent_kafka import Producer

from ottla.testing import Cluster
from ottla.testing.ports import ReservedPorts
from tests.cluster.load import Load, check_nothing_lost, report
from tests.cluster.tools import kafka, run

pytestmark = [pytest.mark.usefixtures("everybody_back"), pytest.mark.cluster, pytest.mark.timeout(300)]

_ROLLS = int(os.environ.get("OTTLA_ROLLS", "1"))


@pytest.fixture(scope="module")
def probes() -> ReservedPorts:
    return ReservedPorts(3)


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster], probes: ReservedPorts) -> Iterator[Cluster]:
    settings = {broker: {"metrics.port": str(port)} for broker, port in enumerate(probes.numbers)}
    with new_cluster(3, broker_config=settings) as running:
        yield running


@contextmanager
def supervised(cluster: Cluster) -> Iterator[None]:
    """Start ended brokers again, as systemd and Kubernetes do."""
    stopping = threading.Event()

    def supervise() -> None:
        while not stopping.wait(0.05):
            for broker in cluster.ports:
                if broker not in cluster.running():
                    cluster.restart(broker)

    thread = threading.Thread(target=supervise)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def kill_command(cluster: Cluster, directory: object) -> str:
    """Return a command that ends the broker with SIGTERM and returns at once."""
    for broker in cluster.ports:
        with open(f"{directory}/{broker}", "w") as file:
            file.write(str(cluster.pid(broker)))
    return f"kill $(cat {directory}/{{broker}})"


def roll(cluster: Cluster, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run(
        "ottla",
        "cluster",
        "roll",
        "-b",
        cluster.bootstrap_servers,
        "--yes",
        "--restart-command",
        command,
        *options,
    )


def ready(probes: ReservedPorts, broker: int) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{probes.numbers[broker]}/readyz")


def test_rolling_the_cluster_under_load_loses_nothing(cluster: Cluster, tmp_path) -> None:
    cluster.create_topic("rolled", partitions=6)
    with Load(cluster.bootstrap_servers, "rolled", per_second=200) as load:
        load.wait_for(100)
        began = load.times[-1]
        for _ in range(_ROLLS):
            before = {broker: cluster.pid(broker) for broker in cluster.ports}
            with supervised(cluster):
                done = roll(cluster, kill_command(cluster, tmp_path), "--timeout", "5")
            assert done.returncode == 0, (done.stdout, done.stderr)
            assert done.stdout.count("is back and in sync") == 3
            assert all(cluster.pid(broker) != before[broker] for broker in cluster.ports)
            cluster.wait_until(
                lambda: {cluster.leader("rolled", each) for each in range(6)} == {0, 1, 2},
                "each broker leads again",
            )
        load.wait_for(100)
    check_nothing_lost(cluster, "rolled", load)
    report(f"{_ROLLS} rolls", load, began)
    assert load.longest_gap(began) < 5


def test_a_problem_stops_the_roll_with_one_sentence(cluster: Cluster, tmp_path) -> None:
    cluster.create_topic("whole", partitions=1)
    before = {broker: cluster.pid(broker) for broker in cluster.ports}
    failing = roll(cluster, "exit 7 # {broker}")
    assert failing.returncode == 1
    assert "the restart command failed with exit code 7: exit 7" in failing.stderr
    assert failing.stderr.count("\n") == 1
    idle = roll(cluster, "true {broker}", "--broker", "1", "--broker-timeout", "1")
    assert "Broker 1 has not stopped 1 s after its restart command" in idle.stderr
    unknown = roll(cluster, "true {node}")
    assert "unknown placeholder {node}" in unknown.stderr
    assert "names no broker" in roll(cluster, "true").stderr
    assert "Broker 9 does not run" in roll(cluster, "true {broker}", "--broker", "9").stderr
    dry = roll(cluster, "exit 1 {broker}", "--dry-run")
    assert dry.returncode == 0
    assert f"The controller is broker {cluster.controller()}." in dry.stdout
    assert {broker: cluster.pid(broker) for broker in cluster.ports} == before


def test_nothing_restarts_while_replicas_lag_or_would_be_missing(cluster: Cluster) -> None:
    cluster.create_topic("behind", partitions=1)
    cluster.create_topic("strict", partitions=1, config={"min.insync.replicas": "3"})
    strict = roll(cluster, "exit 1 {broker}")
    assert "strict-0 would refuse producers with acks=all" in strict.stderr
    kafka(cluster, "topics", "--delete", "--topic", "strict")
    cluster.create_topic("alone", partitions=1, replication_factor=1)
    alone = roll(cluster, "exit 1 {broker}")
    assert "Nothing was restarted: alone-0 would be unavailable, with a single replica." in alone.stderr
    kafka(cluster, "topics", "--delete", "--topic", "alone")
    cluster.kill(2)
    cluster.wait_for_isr("behind", {0, 1})
    lagging = roll(cluster, "exit 1 {broker}")
    assert lagging.returncode == 1
    assert "under-replicated" in lagging.stderr
    assert "broker 2 is not in sync" in lagging.stderr


def test_a_broker_is_ready_only_in_sync_and_whether_or_not_others_are(
    cluster: Cluster, probes: ReservedPorts
) -> None:
    cluster.create_topic("probed", partitions=3)
    for broker in cluster.ports:
        cluster.wait_until(lambda: ready(probes, broker).is_success, f"broker {broker} is ready")  # noqa: B023
    cluster.kill(2)
    cluster.wait_for_isr("probed", {0, 1})
    assert ready(probes, 0).json()["reasons"] == []
    cluster.restart(2)

    def probed() -> bool:
        answer = ready(probes, 2)
        if answer.is_success:
            views = [cluster.partition("probed", each) for each in range(3)]
            assert all(view is not None and 2 in view.isr for view in views)
            return True
        assert answer.status_code == 503
        assert answer.json()["reasons"]
        return False

    cluster.wait_until(probed, "broker 2 is ready")


def test_a_stopping_broker_waits_until_another_replica_can_lead(cluster: Cluster) -> None:
    throttle = {"leader.replication.throttled.replicas": "*"}
    cluster.create_topic("waited", partitions=1, replication_factor=2, config=throttle)
    view = cluster.partition("waited")
    assert view is not None
    leader, follower = view.leader, next(each for each in view.replicas if each != view.leader)
    cluster.stop(follower)
    cluster.wait_for_isr("waited", {leader})
    kafka(
        cluster, "configs", "--alter", "--entity-type", "brokers", "--entity-name", leader,
        "--add-config", "leader.replication.throttled.rate=1000000",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "1"})
    for _ in range(30):
        producer.produce("waited", os.urandom(100_000), partition=0)
    assert producer.flush(60) == 0
    cluster.restart(follower)
    view = cluster.partition("waited")
    assert view is not None
    assert view.isr == (leader,)
    assert cluster.stop(leader) == 0
    view = cluster.partition("waited")
    assert view is not None
    assert (view.leader, view.isr) == (follower, (follower,))
