"""Promise: with a lost broker or a wrong advertised address, our tools on Ottla behave like Kafka's on Kafka.

The same steps run on two clusters of two brokers. The test compares the kind of response: existing and stored objects,
waiting, and the named error. Our tools name more, which the test checks against Kafka's metadata.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import ApacheKafka, Unavailable, random_cluster_id, run_tool
from ottla.testing import Broker, Cluster
from tests.peers.tools.kafka_tools import CLASSES, QUICK_JVM, ours
from tests.shell import wait_until

pytestmark = [pytest.mark.peers, pytest.mark.cluster, pytest.mark.timeout(400)]

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
SMALL_JVM = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Kafka's tools print warnings with their shipped configuration.
WARNINGS = """
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = WARN
rootLogger.appenderRefs = stderr
rootLogger.appenderRef.stderr.ref = stderr
"""
CUSTOMERS = 12_434
SOON = ("--command-property", "delivery.timeout.ms=5000")
GIVEN_UP = "Error: Executing consumer group command failed due to "

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Side:
    """A cluster of two brokers with its own tools."""

    bootstrap_servers: str
    brokers: tuple[int, int]
    tool: Callable[..., Done]
    kill_second: Callable[[], None]

    def __call__(self, tool: str, *args: str, input: str = "") -> Done:
        return self.tool(self, tool, *args, input=input)

    def describe(self, topic: str) -> list[str]:
        """Return the leader of each partition."""
        return re.findall(r"Leader: (\S+)", ours(self, "topics", "--describe", "--topic", topic).stdout)

    def counts(self, topic: str) -> list[int]:
        found = ours(self, "get-offsets", "--topic", topic).stdout.split()
        return [int(line.rpartition(":")[2]) for line in found]


@pytest.fixture(scope="module")
def kafkas_tool(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    config = tmp_path_factory.mktemp("log4j") / "log4j2.properties"
    config.write_text(WARNINGS)

    def run(side: Side | ApacheKafka, tool: str, *args: str, input: str = "") -> Done:
        arguments = ["--bootstrap-server", side.bootstrap_servers, *args]
        jvm = (*QUICK_JVM, f"-Dlog4j2.configurationFile={config}")
        return run_tool(CLASSES[tool], arguments, check=False, timeout=120, input=input, jvm=jvm)

    return run


@pytest.fixture(scope="module")
def sides(kafkas_tool: Callable[..., Done], new_cluster: Callable[..., Cluster]) -> Iterator[dict[str, Side]]:
    """Both clusters with all data, before the loss."""
    with ExitStack() as stack:
        try:
            one, two = (stack.enter_context(broker) for broker in apache_kafkas())
        except Unavailable as reason:
            pytest.skip(str(reason))
        ottla = stack.enter_context(new_cluster(2, config={"offsets.topic.replication.factor": "1"}))
        both = {
            "kafka": Side(one.bootstrap_servers, (1, 2), kafkas_tool, two.kill),
            "ottla": Side(ottla.bootstrap_servers, (0, 1), ours, lambda: ottla.kill(1)),
        }
        for side in both.values():
            first, second = side.brokers
            for topic, replicas in (
                ("spread", f"{first},{first},{first}"),
                ("lost", f"{second}"),
                ("halved", f"{first},{second}"),
                ("guarded", f"{first}:{second}"),
            ):
                ours(side, "topics", "--create", "--topic", topic, "--replica-assignment", replicas)
            ours(side, "configs", "--alter", "--topic", "guarded", "--add-config", "min.insync.replicas=2")
            # Creates the offsets topic.
            ours(side, "console-consumer", "--topic", "spread", "--group", "g", "--timeout-ms", "3000")
        yield both


def apache_kafkas() -> tuple[ApacheKafka, ApacheKafka]:
    """Two Apache Kafka brokers; the first is the controller as well."""
    cluster_id, controller, ports = random_cluster_id(), free_port(), (free_port(), free_port())
    common = {**SETTINGS, "controller.quorum.voters": f"1@127.0.0.1:{controller}"}
    at = [f"PLAINTEXT://127.0.0.1:{port}" for port in ports]
    first = {
        "process.roles": "broker,controller",
        "listeners": f"{at[0]},CONTROLLER://127.0.0.1:{controller}",
    }
    second = {"process.roles": "broker", "node.id": "2", "listeners": at[1]}
    return tuple(
        ApacheKafka(port=port, cluster_id=cluster_id, jvm=SMALL_JVM, config={**common, **own})
        for port, own in zip(ports, (first, second), strict=True)
    )


@pytest.fixture(scope="module")
def halved(sides: dict[str, Side]) -> dict[str, Side]:
    """Both clusters after the loss of their second brokers."""
    for side in sides.values():
        side.kill_second()
    for side in sides.values():
        wait_until(lambda side=side: side.describe("lost") == ["none"])
    return sides


both = pytest.mark.parametrize("name", ["kafka", "ottla"])


@both
def test_lines_without_a_key_reach_every_partition(sides: dict[str, Side], name: str) -> None:
    rows = "".join(f"{number},customer {number},{number % 97}\n" for number in range(CUSTOMERS))
    sides[name]("console-producer", "--topic", "spread", input=rows)
    counts = sides[name].counts("spread")
    assert sum(counts) == CUSTOMERS
    assert min(counts) > 0


@both
def test_a_topic_without_a_leader_is_waited_for(halved: dict[str, Side], name: str) -> None:
    produced = halved[name]("console-producer", "--topic", "lost", *SOON, input="x\ny\n")
    said = produced.stdout + produced.stderr
    assert "not exist" not in said
    assert re.search(
        r"Expiring 2 record\(s\) for lost-0|2 messages were not delivered: LEADER_NOT_AVAILABLE", said
    )
    for where in (["--from-beginning"], ["--partition", "0", "--offset", "earliest"]):
        consumed = halved[name]("console-consumer", "--topic", "lost", *where, "--timeout-ms", "4000")
        assert "not exist" not in consumed.stderr
        assert consumed.stderr.splitlines()[-1] == "Processed a total of 0 messages"


@both
def test_the_partition_that_has_a_leader_is_used(halved: dict[str, Side], name: str) -> None:
    lines = "".join(f"{number}\n" for number in range(3000))
    options = ("--topic", "halved")
    halved[name]("console-producer", *options, "--batch-size", "500", input=lines)
    # Otherwise Kafka's console consumer joins a group with a random name, whose coordinator may be lost.
    where = ("--partition", "0", "--offset", "earliest")
    read = halved[name]("console-consumer", *options, *where, "--max-messages", "3000")
    assert sorted(map(int, read.stdout.split())) == list(range(3000))


@both
def test_too_few_replicas_in_sync_are_named(halved: dict[str, Side], name: str) -> None:
    produced = halved[name]("console-producer", "--topic", "guarded", *SOON, input="x\n")
    said = produced.stdout + produced.stderr
    assert "NOT_ENOUGH_REPLICAS" in said
    assert "Messages are rejected since there are fewer in-sync replicas than required" in said
    assert halved[name].counts("guarded") == [0]


def test_a_group_without_coordinator_is_told_which_partition_of_which_topic(halved: dict[str, Side]) -> None:
    """Our tool does so on Kafka as well, while Kafka's own tool gives up without a reason."""
    for name, side in halved.items():
        lost = {
            number for number, leader in enumerate(side.describe("__consumer_offsets")) if leader == "none"
        }
        assert lost
        named = set()
        for group in ("a", "b", "c", "d", "e"):  # one group per partition
            args = ("consumer-groups", "--describe", "--group", group, "--timeout", "2000")
            said = ours(side, *args).stdout
            found = re.search(r"partition (\d+) of topic __consumer_offsets has no leader", said)
            if found is None:
                assert "not available" not in said
                continue
            named.add(int(found[1]))
            own = side(*args).stdout
            assert GIVEN_UP in own
            assert GIVEN_UP in said
        assert named == lost, name


@pytest.fixture
def closed() -> str:
    """Return an address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_wrong_advertised_address_is_named(kafkas_tool: Callable[..., Done], closed: str) -> None:
    """Kafka's tool keeps trying and names the address in its warnings; ours ends."""
    advertised = {"advertised.listeners": f"PLAINTEXT://{closed}"}
    produce = ("console-producer", "--topic", "t", "--max-block-ms", "3000", *SOON)
    try:
        kafka = ApacheKafka(jvm=SMALL_JVM, config=advertised).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        theirs = kafkas_tool(kafka, *produce, input="x\n")
        assert closed in theirs.stderr
        on_kafka = ours(kafka, *produce, input="x\n")
    finally:
        kafka.stop()
        kafka.remove()
    with Broker(config=advertised) as broker:
        on_ottla = ours(broker, *produce, input="x\n")
    for done in (on_kafka, on_ottla):
        assert f"advertises {closed}" in done.stderr
        assert "advertised.listeners" in done.stderr
