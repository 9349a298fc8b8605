"""Promise: on a cluster of three brokers, too, our tools and Kafka's print the same, and Kafka's tools work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import Unavailable, kafka_jars
from ottla.testing import Cluster
from tests.peers.tools.kafka_tools import ours, theirs, without_logging

pytestmark = [pytest.mark.peers, pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Cluster(3) as running:
        ours(running, "topics", "--create", "--topic", "spread", "--replica-assignment", "0:1:2,1:2:0,2:0:1")
        ours(running, "topics", "--create", "--topic", "single", "--replica-assignment", "0,1,2")
        ours(running, "console-producer", "--topic", "spread", input="a\nb\nc\n")
        yield running


def both(cluster: Cluster, *args: str, code: int = 0) -> list[str]:
    """Return the output of both tools."""
    kafka, ottla = theirs(cluster, *args), ours(cluster, *args)
    expected, said = without_logging(kafka.stdout), without_logging(ottla.stdout)
    assert said == expected
    assert ottla.returncode == kafka.returncode == code
    return said


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def file(path: Path, document: object) -> str:
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    "args",
    [
        ("topics", "--describe", "--topic", "spread"),
        ("topics", "--list"),
        ("topics", "--create", "--topic", "many", "--replication-factor", "4"),
        ("topics", "--create", "--topic", "wrong", "--replica-assignment", "0:7"),
        ("get-offsets", "--topic", "spread"),
        ("cluster", "list-endpoints"),
        ("leader-election", "--election-type", "preferred", "--topic", "spread", "--partition", "1"),
        ("leader-election", "--election-type", "unclean", "--topic", "spread", "--partition", "1"),
        ("log-dirs", "--describe", "--broker-list", "0,1,9"),
        ("reassign-partitions", "--list"),
        ("configs", "--entity-type", "brokers", "--describe"),
        ("configs", "--entity-type", "brokers", "--entity-name", "2", "--describe", "--all"),
    ],
    ids=" ".join,
)
def test_both_tools_say_the_same(cluster, args):
    kafka, ottla = theirs(cluster, *args), ours(cluster, *args)
    assert without_logging(ottla.stdout) == without_logging(kafka.stdout)
    assert ottla.returncode == kafka.returncode


def test_both_see_the_same_brokers(cluster):
    """Kafka's tool queries all brokers at once and prints responses as they arrive."""

    def by_broker(text: str) -> dict[str, list[str]]:
        blocks = text.strip().split("\n)\n")
        return {block.splitlines()[0]: block.strip(")\n").splitlines()[1:] for block in blocks}

    kafka, ottla = (by_broker(run(cluster, "broker-api-versions").stdout) for run in (theirs, ours))
    assert len(ottla) == 3
    assert ottla == kafka


def test_both_see_the_same_log_directories(cluster):
    def directories(text: str) -> object:
        return sorted(
            (
                broker["broker"],
                directory["logDir"],
                sorted(
                    (each["partition"], each["size"], each["offsetLag"]) for each in directory["partitions"]
                ),
            )
            for broker in json.loads(text.splitlines()[-1])["brokers"]
            for directory in broker["logDirs"]
        )

    args = ("log-dirs", "--describe", "--topic-list", "spread,single")
    kafka, ottla = theirs(cluster, *args).stdout, ours(cluster, *args).stdout
    assert len(directories(ottla)) == 3
    assert directories(ottla) == directories(kafka)


@pytest.mark.parametrize(("run", "topic"), [(theirs, "by-kafka"), (ours, "by-ottla")], ids=["kafka", "ottla"])
def test_a_factor_is_raised_by_either(cluster, run, topic, tmp_path):
    """One tool moves the replicas; both show the same progress and result."""
    ours(cluster, "topics", "--create", "--topic", topic, "--replica-assignment", "0,1")
    topics = file(tmp_path / "topics.json", {"topics": [{"topic": topic}], "version": 1})
    proposed = run(
        cluster,
        "reassign-partitions",
        "--generate",
        "--topics-to-move-json-file",
        topics,
        "--broker-list",
        "2",
    )
    proposal = without_logging(proposed.stdout)[-1]
    assert [each["replicas"] for each in json.loads(proposal)["partitions"]] == [[2], [2]]
    moves = [
        {"topic": topic, "partition": 0, "replicas": [1, 2, 0]},
        {"topic": topic, "partition": 1, "replicas": [2, 0, 1]},
    ]
    move = ("--reassignment-json-file", file(tmp_path / "move.json", {"partitions": moves, "version": 1}))
    executed = run(cluster, "reassign-partitions", "--execute", *move, "--throttle", "100000")
    assert without_logging(executed.stdout)[-1] == (
        f"Successfully started partition reassignments for {topic}-0,{topic}-1"
    )
    wait_until(lambda: "No partition" in ours(cluster, "reassign-partitions", "--list").stdout)
    assert both(cluster, "reassign-partitions", "--verify", *move) == [
        "Status of partition reassignment:",
        f"Reassignment of partition {topic}-0 is completed.",
        f"Reassignment of partition {topic}-1 is completed.",
        "Clearing broker-level throttles on brokers 0,1,2",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    partitions = file(tmp_path / "partitions.json", {"partitions": moves})
    election = ("leader-election", "--election-type", "preferred", "--path-to-json-file", partitions)
    [elected] = without_logging(run(cluster, *election).stdout)
    assert elected.startswith("Successfully completed leader election (PREFERRED) for partitions ")
    assert set(elected.partition("partitions ")[2].split(", ")) == {f"{topic}-0", f"{topic}-1"}
    described = both(cluster, "topics", "--describe", "--topic", topic)
    assert [line.split("\t")[3:5] for line in described[1:]] == [
        ["Leader: 1", "Replicas: 1,2,0"],
        ["Leader: 2", "Replicas: 2,0,1"],
    ]
    again = f"Valid replica already elected for partitions {topic}-0, {topic}-1".split()
    for run_again in (theirs, ours):
        # Kafka keeps them in a hash map.
        [said] = without_logging(run_again(cluster, *election).stdout)
        assert sorted(said.replace(",", "").split()) == sorted(word.strip(",") for word in again)


def test_both_see_that_a_broker_is_missing(cluster):
    cluster.kill(2)
    try:
        wait_until(
            lambda: "Leader: 2" not in ours(cluster, "topics", "--describe", "--topic", "spread").stdout
        )
        for args in (
            ("--describe", "--topic", "spread"),
            ("--describe", "--under-replicated-partitions", "--topic", "spread"),
            ("--describe", "--unavailable-partitions"),
            ("--describe", "--under-min-isr-partitions", "--topic", "spread"),
        ):
            both(cluster, "topics", *args)
        unavailable = both(cluster, "topics", "--describe", "--unavailable-partitions")
        assert [line.split("\t")[1:4] for line in unavailable] == [
            ["Topic: single", "Partition: 2", "Leader: none"]
        ]
        refused = both(
            cluster, "leader-election", "--election-type", "preferred", "--topic", "spread", "--partition", "2",
            code=1,
        )  # fmt: skip
        assert "PreferredLeaderNotAvailableException" in refused[0]
    finally:
        cluster.restart(2)
