"""`ottla cluster rebalance` on real brokers: add, drain, remove and replace a broker without losing records."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.testing import Cluster
from ottla.testing.ports import ReservedPorts
from tests.cluster.load import Load, check_nothing_lost
from tests.cluster.reassignment.moving import (
    bytes_of,
    create,
    fill,
    logs,
    moving,
    rates,
    wait_for_replicas,
)
from tests.cluster.tools import run

pytestmark = [pytest.mark.usefixtures("everybody_back"), pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    """Brokers that die with the controller leave the others waiting for its session to expire."""
    with new_cluster(3, config={"zookeeper.session.timeout.ms": "6000"}) as running:
        yield running


def arguments(cluster: Cluster, *args: object) -> list[str]:
    servers = ",".join(f"127.0.0.1:{cluster.ports[broker]}" for broker in cluster.running())
    return ["cluster", "rebalance", "-b", servers, *map(str, args)]


def rebalance(
    cluster: Cluster, *args: object, code: int = 0, seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    done = run("ottla", *arguments(cluster, *args), seconds=seconds)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def proposal(cluster: Cluster, *args: object) -> Any:
    return json.loads(rebalance(cluster, "--dry-run", "--json", *args).stdout)


def placed(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    [described] = cluster.metadata([topic]).topics
    return {each.partition_index: list(each.replica_nodes) for each in described.partitions}


def leads(cluster: Cluster, topic: str, broker: int | None = None) -> dict[int, int]:
    [described] = cluster.metadata([topic], broker=broker).topics
    led = [each.leader_id for each in described.partitions]
    return {each: led.count(each) for each in cluster.running()}


def replicas(cluster: Cluster, topic: str, broker: int | None = None) -> dict[int, int]:
    [described] = cluster.metadata([topic], broker=broker).topics
    held = [each for partition in described.partitions for each in partition.replica_nodes]
    return {each: held.count(each) for each in cluster.running()}


def check_spread(cluster: Cluster, topic: str, wanted: dict[int, int], led: dict[int, int]) -> None:
    """Check the spread. Brokers learn of it one after another."""
    cluster.wait_until(
        lambda: all(replicas(cluster, topic, broker) == wanted for broker in cluster.running()),
        f"{topic} has these replicas: {wanted}",
    )
    cluster.wait_until(
        lambda: all(leads(cluster, topic, broker) == led for broker in cluster.running()),
        f"{topic} has these leaders: {led}",
    )


def add_broker(cluster: Cluster, broker: int) -> None:
    if broker not in cluster.ports:
        cluster._reserved.append(ReservedPorts(1))
        [cluster.ports[broker]] = cluster._reserved[-1].numbers
    cluster._launch(broker)
    cluster.wait_for_brokers([broker])


def remove_broker(cluster: Cluster, broker: int) -> None:
    """Remove a broker for good, including its disk."""
    assert cluster.stop(broker) == 0
    del cluster.ports[broker], cluster._processes[broker]
    shutil.rmtree(cluster.directory(broker))
    cluster.wait_until(
        lambda: broker not in {each.node_id for each in cluster.metadata([]).brokers}, "it is gone"
    )


def test_a_broker_that_is_added_gets_its_share_and_gives_it_back_before_it_is_removed(
    cluster: Cluster,
) -> None:
    create(cluster, "shared", [[index % 3, (index + 1) % 3] for index in range(12)])
    fill(cluster, "shared", range(1, 12), 100)
    only = ("--topics", "shared")
    assert proposal(cluster, *only)["partitions"] == []
    with Load(cluster.bootstrap_servers, "shared") as load:
        load.wait_for(100)
        add_broker(cluster, 3)
        proposed = proposal(cluster, *only)
        assert proposed["bytes_to_copy"] > 0
        assert all(3 in each["replicas"] for each in proposed["partitions"] if each["bytes_to_copy"])
        assert replicas(cluster, "shared")[3] == 0, "a dry run changed something"
        said = rebalance(cluster, *only, code=1)
        assert "--yes" in said.stderr

        said = rebalance(cluster, *only, "--yes", "--batch", 2, "--throttle", 5_000_000)
        assert "PARTITION" in said.stdout
        assert "0 → 6" in said.stdout
        assert "6 of 6 partitions moved" in said.stderr
        assert "Done." in said.stdout
        check_spread(cluster, "shared", {0: 6, 1: 6, 2: 6, 3: 6}, {0: 3, 1: 3, 2: 3, 3: 3})
        assert rates(cluster, 3) == {}
        assert "There is nothing to even out." in rebalance(cluster, *only, "--yes").stdout
        load.wait_for(100)

        said = rebalance(cluster, "--drain", 3, "--yes")
        check_spread(cluster, "shared", {0: 8, 1: 8, 2: 8, 3: 0}, {0: 4, 1: 4, 2: 4, 3: 0})
        cluster.wait_until(lambda: not logs(cluster, 3, "*"), "nothing is left on it")
        began = time.monotonic()
        remove_broker(cluster, 3)
        load.wait_for(100)
    assert load.longest_gap(began) < 15
    check_nothing_lost(cluster, "shared", load)


def test_what_was_interrupted_goes_on_by_itself_and_with_the_next_run(cluster: Cluster) -> None:
    create(cluster, "halted", [[0]] * 12)
    fill(cluster, "halted", range(12), 300)
    args = ("--topics", "halted", "--yes", "--batch", 2)
    running = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *arguments(cluster, *args, "--throttle", 300_000)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        cluster.wait_until(lambda: bool(moving(cluster, "halted")), "something moves")
        assert len(moving(cluster, "halted")) <= 2
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "Interrupted." in said
    assert "Run the same command again to continue." in said
    assert replicas(cluster, "halted")[0] > 4
    rebalance(cluster, *args)
    check_spread(cluster, "halted", {0: 4, 1: 4, 2: 4}, {0: 4, 1: 4, 2: 4})
    for broker in cluster.running():
        assert rates(cluster, broker) == {}


def test_bytes_are_evened_out_where_the_number_of_replicas_is_even(cluster: Cluster) -> None:
    create(cluster, "heavy", [[index % 3] for index in range(9)])
    fill(cluster, "heavy", [0, 3, 6], 300)
    rebalance(cluster, "--topics", "heavy", "--yes")
    check_spread(cluster, "heavy", {0: 3, 1: 3, 2: 3}, {0: 3, 1: 3, 2: 3})
    cluster.wait_until(
        lambda: sum(len(logs(cluster, broker, "heavy")) for broker in range(3)) == 9, "old logs are gone"
    )
    sizes = [bytes_of(cluster, broker, "heavy") for broker in range(3)]
    assert max(sizes) < 1.2 * min(sizes)


def test_leaders_go_back_to_their_preferred_replicas(cluster: Cluster) -> None:
    assignment = {index: [index % 3, (index + 1) % 3] for index in range(6)}
    create(cluster, "led", list(assignment.values()))
    fill(cluster, "led", range(6), 10)
    cluster.stop(0)
    cluster.restart(0)
    wait_for_replicas(cluster, "led", assignment)
    assert leads(cluster, "led")[0] == 0
    rebalance(cluster, "--topics", "led", "--leaders-only", "--yes")
    check_spread(cluster, "led", {0: 4, 1: 4, 2: 4}, {0: 2, 1: 2, 2: 2})


def test_a_broker_that_died_is_drained_and_its_partitions_have_all_their_replicas_again(
    cluster: Cluster,
) -> None:
    add_broker(cluster, 4)
    create(cluster, "bereft", [[4, 0], [1, 4], [2, 0]])
    with Load(cluster.bootstrap_servers, "bereft") as load:
        load.wait_for(100)
        cluster.kill(4)
        cluster.wait_for_leader("bereft", other_than=4)
        cluster.wait_until(
            lambda: 4 not in {each.node_id for each in cluster.metadata([]).brokers}, "it is known to be gone"
        )
        said = rebalance(cluster, "--topics", "bereft", "--dry-run")
        assert "--drain" in said.stderr
        rebalance(cluster, "--topics", "bereft", "--drain", 4, "--yes")
        now = placed(cluster, "bereft")
        assert all(4 not in each and len(each) == 2 for each in now.values())
        wait_for_replicas(cluster, "bereft", now)
        load.wait_for(100)
    check_nothing_lost(cluster, "bereft", load)
    del cluster.ports[4], cluster._processes[4]


def test_a_broker_with_an_empty_disk_follows_from_the_beginning(cluster: Cluster) -> None:
    create(cluster, "refilled", [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    fill(cluster, "refilled", [1, 2], 200)
    with Load(cluster.bootstrap_servers, "refilled") as load:
        load.wait_for(200)
        cluster.kill(0)
        shutil.rmtree(cluster.directory(0))
        cluster.restart(0)
        for index in range(3):
            cluster.wait_for_isr("refilled", {0, 1, 2}, index, seconds=60)
        load.wait_for(100)
        cluster.kill(1)
        cluster.kill(2)
        cluster.wait_until(lambda: cluster.leader("refilled") == 0, "it leads alone", 60)
        load.wait_for(50)
    check_nothing_lost(cluster, "refilled", load)


def test_what_cannot_be_done_is_one_sentence(cluster: Cluster) -> None:
    create(cluster, "wide", [[0, 1, 2]])
    said = rebalance(cluster, "--topics", "wide", "--drain", 1, "--yes", code=1)
    assert said.stderr == (
        "Error: wide-0 has 3 replicas, and there are 2 brokers to have them: add a broker first, or lower its "
        "replication factor.\n"
    )
    said = rebalance(cluster, "--drain", 77, code=1)
    assert said.stderr == "Error: There is no broker 77, and no partition has a replica on it.\n"
    said = rebalance(cluster, "--topics", "nowhere", code=1)
    assert said.stderr.startswith("Error: Topic 'nowhere' does not exist.")
    assert rebalance(cluster, "--drain", 1, "--leaders-only", code=2).stderr.count("Error") == 1
