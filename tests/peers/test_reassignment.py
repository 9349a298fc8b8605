"""Promise: kafka-reassign-partitions has the same effect on Apache Kafka as Kafka's own tool, with the same output."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars, run_tool
from tests.installed import kafka_tool

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

SMALL_JVM = ("-Xms192m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SLOW = 1024  # bytes per second: no move completes during a test


def member(node: int, controller: int) -> ApacheKafka:
    """Start broker `node` of the cluster; the first one is the controller as well."""
    port = free_port()
    listener = f"PLAINTEXT://127.0.0.1:{port}"
    kafka = ApacheKafka(
        port=port,
        jvm=SMALL_JVM,
        config={
            "process.roles": "broker,controller" if node == 1 else "broker",
            "node.id": str(node),
            "broker.rack": f"rack-{node}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller}" if node == 1 else listener,
            "broker.session.timeout.ms": "60000",
        },
    )
    # Formatted here, so that all brokers have the same cluster id.
    file = kafka.directory / "format.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in kafka.properties().items()))
    run_tool("kafka.tools.StorageTool", ["format", "-t", CLUSTER_ID, "-c", str(file)], jvm=SMALL_JVM)
    return kafka


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    controller = free_port()
    with ExitStack() as stack:
        brokers = [stack.enter_context(member(node, controller)) for node in (1, 2, 3)]
        yield ",".join(broker.bootstrap_servers for broker in brokers)


def ours(bootstrap: str, tool: str, *args: object, code: int = 0) -> str:
    done = subprocess.run(
        [kafka_tool(tool), "--bootstrap-server", bootstrap, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout


def theirs(bootstrap: str, *args: object, code: int = 0) -> str:
    done = run_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        ["--bootstrap-server", bootstrap, *map(str, args)],
        check=False,
        timeout=120,
        jvm=SMALL_JVM,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    # Users need neither the exception class nor the trace; one message without a full stop gets one.
    lines = done.stdout.replace("moves are active.Clearing", "moves are active.\nClearing").splitlines(True)
    told = [line for line in lines if not line.startswith(("\tat ", "java.", "Caused by: ", "org.apache."))]
    return "".join(told).replace("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: ", "")


def both(bootstrap: str, *args: object, code: int = 0) -> list[str]:
    expected = theirs(bootstrap, *args, code=code).strip().splitlines()
    said = ours(bootstrap, "reassign-partitions", *args, code=code).strip().splitlines()
    assert said == expected
    return said


def file(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"version": 1, **document}))
    return path


def partition(topic: str, number: int, *replicas: int) -> dict[str, Any]:
    return {"topic": topic, "partition": number, "replicas": list(replicas)}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_move_goes_on_is_throttled_and_is_cancelled(bootstrap, tmp_path):
    ours(bootstrap, "topics", "--create", "--topic", "big", "--replica-assignment", "1:2,2:1")
    # Both partitions exceed one fetch.
    load = (
        "--num-records",
        3000,
        "--record-size",
        5000,
        "--command-property",
        "sticky.partitioning.linger.ms=0",
    )
    ours(bootstrap, "producer-perf-test", "--topic", "big", *load)
    moves = [partition("big", 0, 2, 3), partition("big", 1, 3, 1, 2)]
    move = ("--reassignment-json-file", file(tmp_path / "move.json", {"partitions": moves}))
    started = ours(bootstrap, "reassign-partitions", "--execute", *move, "--throttle", SLOW).splitlines()
    assert started[-2:] == [
        f"The inter-broker throttle limit was set to {SLOW} B/s",
        "Successfully started partition reassignments for big-0,big-1",
    ]
    assert both(bootstrap, "--list") == [
        "Current partition reassignments:",
        "big-0: replicas: 2,3,1. adding: 3. removing: 1.",
        "big-1: replicas: 3,1,2. adding: 3.",
    ]
    assert "Reassignment of partition big-0 is still in progress." in both(bootstrap, "--verify", *move)
    [refused] = both(bootstrap, "--execute", *move, code=1)
    assert refused.startswith(
        "Cannot execute because there is an existing partition assignment.  Use --additional"
    )

    def throttled() -> str:
        return ours(bootstrap, "configs", "--entity-type", "topics", "--entity-name", "big", "--describe")

    by_ours = throttled()
    assert "leader.replication.throttled.replicas=0:1,0:2,1:1,1:2 " in by_ours
    assert "follower.replication.throttled.replicas=0:3,1:3 " in by_ours
    both(bootstrap, "--execute", *move, "--additional", "--throttle", 2 * SLOW)
    assert throttled() == by_ours
    cancelled = ours(bootstrap, "reassign-partitions", "--cancel", *move).splitlines()
    assert cancelled[0] == "Successfully cancelled partition reassignments for: big-0,big-1"
    assert cancelled[2:] == [
        "Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic big",
    ]
    assert "throttled" not in throttled()
    assert both(bootstrap, "--list") == ["No partition reassignments found."]
    assert (
        both(bootstrap, "--cancel", *move)[0] == "None of the specified partition reassignments are active."
    )


def test_a_move_ends_and_is_taken_back_with_what_was_printed(bootstrap, tmp_path):
    ours(bootstrap, "topics", "--create", "--topic", "small", "--replica-assignment", "1:2,2:3,3:1")
    moves = [partition("small", 0, 2, 3), partition("small", 2, 3)]
    move = ("--reassignment-json-file", file(tmp_path / "move.json", {"partitions": moves}))
    before = both(bootstrap, "--verify", *move)
    assert before[1] == (
        "There is no active reassignment of partition small-0, but replica set is 1,2 rather than 2,3."
    )
    executed = ours(bootstrap, "reassign-partitions", "--execute", *move).splitlines()
    wait_until(lambda: "No partition" in ours(bootstrap, "reassign-partitions", "--list"))
    assert both(bootstrap, "--verify", *move)[1:3] == [
        "Reassignment of partition small-0 is completed.",
        "Reassignment of partition small-2 is completed.",
    ]
    (tmp_path / "back.json").write_text(executed[2])
    back = ("--reassignment-json-file", tmp_path / "back.json")
    returned = ours(bootstrap, "reassign-partitions", "--execute", *back, "--timeout", 30_000)
    assert "Successfully started moving log directory to " in returned
    wait_until(lambda: "still in progress" not in ours(bootstrap, "reassign-partitions", "--verify", *back))
    verified = both(bootstrap, "--verify", *back)
    assert "Reassignment of partition small-0 is completed." in verified
    assert "Reassignment of replica small-0-1 completed successfully." in verified


def test_proposals_are_spread_over_racks(bootstrap, tmp_path):
    ours(bootstrap, "topics", "--create", "--topic", "spread", "--replica-assignment", "1:2,1:2,1:2")
    topics = file(tmp_path / "topics.json", {"topics": [{"topic": "spread"}]})
    options = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3")
    said = ours(bootstrap, "reassign-partitions", *options).splitlines()
    expected = theirs(bootstrap, *options).splitlines()
    assert said[:4] == expected[:4]
    proposed = [each["replicas"] for each in json.loads(said[4])["partitions"]]
    assert sorted(replicas[0] for replicas in proposed) == [1, 2, 3]
    assert sorted(broker for replicas in proposed for broker in replicas) == [1, 1, 2, 2, 3, 3]
    duplicated = (*options[:-1], "1,2,2")
    assert both(bootstrap, *duplicated, code=1) == ["Error: Broker list contains duplicate entries: [2]"]


def test_what_is_wrong_is_told_alike(bootstrap, tmp_path):
    ours(bootstrap, "topics", "--create", "--topic", "wrong", "--replica-assignment", "1:2")
    for moves, action in (
        ([partition("wrong", 0, 2, 7)], "--execute"),
        ([partition("wrong", 9, 2, 3)], "--execute"),
        ([partition("nowhere", 0, 1)], "--execute"),
        ([partition("wrong", 0, 2, 2)], "--execute"),
        ([partition("wrong", 0)], "--execute"),
        ([partition("wrong", 0, 1), partition("wrong", 0, 2)], "--execute"),
    ):
        path = file(tmp_path / "move.json", {"partitions": moves})
        [said] = both(bootstrap, action, "--reassignment-json-file", path, code=1)
        assert said.startswith("Error: ")
    path = file(tmp_path / "more.json", {"partitions": [partition("wrong", 0, 1, 2, 3)]})
    refused = both(
        bootstrap,
        "--execute",
        "--reassignment-json-file",
        path,
        "--disallow-replication-factor-change",
        code=1,
    )
    assert refused[-2:] == [
        "Error reassigning partition(s):",
        "wrong-0: The replication factor is changed from 2 to 3",
    ]


def test_a_cluster_of_apache_kafka_is_rebalanced(bootstrap, tmp_path):
    def rebalance(*args: object) -> str:
        command = [sys.executable, "-m", "ottla.cli", "cluster", "rebalance", "-b", bootstrap, "-t", "heaped"]
        done = subprocess.run([*command, *map(str, args)], capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    ours(
        bootstrap,
        "topics",
        "--create",
        "--topic",
        "heaped",
        "--replica-assignment",
        "1:2,1:2,1:2,1:2,1:2,1:2",
    )
    ours(bootstrap, "producer-perf-test", "--topic", "heaped", "--num-records", 3000, "--record-size", 1000)
    proposed = json.loads(rebalance("--dry-run", "--json"))
    assert [broker["after"]["replicas"] for broker in proposed["brokers"]] == [4, 4, 4]
    assert [broker["after"]["leaders"] for broker in proposed["brokers"]] == [2, 2, 2]
    assert proposed["bytes_to_copy"] > 500_000
    (tmp_path / "plan.json").write_text(json.dumps(proposed))
    verified = theirs(
        bootstrap, "--verify", "--reassignment-json-file", tmp_path / "plan.json", "--preserve-throttles"
    )
    assert verified.count("There is no active reassignment of partition heaped-") == len(
        proposed["partitions"]
    )
    rebalance("--yes", "--batch", 2, "--throttle", 5_000_000)
    verified = theirs(bootstrap, "--verify", "--reassignment-json-file", tmp_path / "plan.json")
    assert verified.count("is completed.") == len(proposed["partitions"])
    assert "There is nothing to even out." in rebalance("--yes")
    described = ours(bootstrap, "topics", "--describe", "--topic", "heaped")
    assert sorted(described.count(f"Leader: {broker}\t") for broker in (1, 2, 3)) == [2, 2, 2]
    assert "throttled" not in described
    drained = json.loads(rebalance("--dry-run", "--json", "--drain", 3))
    assert [broker["after"]["replicas"] for broker in drained["brokers"]] == [6, 6, 0]
