"""Promise: the Java client's new consumers and Kafka's own tools work with our groups, and read our records."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.peers.apache_kafka import (
    DUMP_LOG,
    GROUPS,
    Unavailable,
    client_classpath,
    java,
    kafka_jars,
    run_tool,
)
from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SOURCE = Path(__file__).parent / "java" / "GroupMember.java"


@pytest.fixture(scope="module", autouse=True)
def java_is_there() -> None:
    try:
        client_classpath()
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", partitions=4)
        yield broker


def member(broker: Broker, kind: str, topic: str, count: int) -> subprocess.Popen[str]:
    command = [java(), "-Xmx256m", "-cp", client_classpath(), str(SOURCE)]
    command += [kind, broker.bootstrap_servers, "g", topic, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def lines(process: subprocess.Popen[str]) -> list[tuple[int, str]]:
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    return [(int(line.split()[0]), line.split()[1]) for line in out.splitlines()]


def produce(broker: Broker, numbers: range) -> list[str]:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce("t", str(number), partition=number % 4)
    producer.flush()
    return [str(number) for number in numbers]


def until_members(broker: Broker, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        described = admin.describe_consumer_groups(["g"])["g"].result()
        if [len(m.assignment.topic_partitions) for m in described.members] == [4 // count] * count:
            return
        time.sleep(0.2)
    raise AssertionError("the members have not shared the partitions")


def test_two_java_consumers_share_the_partitions_and_a_third_goes_on(broker: Broker) -> None:
    both = [member(broker, "consumer", "t", 20) for _ in range(2)]
    until_members(broker, 2)
    sent = produce(broker, range(40))
    found = [lines(process) for process in both]
    assert [len({partition for partition, _ in seen}) for seen in found] == [2, 2]
    assert sorted(value for seen in found for _, value in seen) == sorted(sent)
    table = run_tool(
        GROUPS, ["--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", "g"]
    ).stdout
    assert len(re.findall(r"^g\s+t\s+\d\s+10\s+10\s+0\s", table, re.MULTILINE)) == 4
    more = produce(broker, range(40, 60))
    assert sorted(value for _, value in lines(member(broker, "consumer", "t", 20))) == sorted(more)


def test_a_pattern_of_the_java_client_is_matched_by_the_broker(broker: Broker) -> None:
    sent = produce(broker, range(8))
    assert sorted(value for _, value in lines(member(broker, "pattern", "[s-u]", 8))) == sorted(sent)


def test_java_share_consumers_get_each_record_once(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, "g", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    sent = produce(broker, range(40))
    first = lines(member(broker, "share", "t", 40))
    assert sorted(value for _, value in first) == sorted(sent)
    broker.restart()
    more = produce(broker, range(40, 60))
    assert sorted(value for _, value in lines(member(broker, "share", "t", 20))) == sorted(more)
    tool = ["--bootstrap-server", broker.bootstrap_servers]
    assert "g" in run_tool(SHARE_GROUPS, [*tool, "--list"]).stdout
    table = run_tool(SHARE_GROUPS, [*tool, "--describe", "--group", "g", "--offsets"]).stdout
    assert len(re.findall(r"^g\s+t\s+\d\s+", table, re.MULTILINE)) == 4
    reset = [*tool, "--reset-offsets", "--group", "g", "--topic", "t", "--to-earliest", "--execute"]
    run_tool(SHARE_GROUPS, reset)
    assert len(lines(member(broker, "share", "t", 60))) == 60
    run_tool(SHARE_GROUPS, [*tool, "--delete-offsets", "--group", "g", "--topic", "t"])
    run_tool(SHARE_GROUPS, [*tool, "--delete", "--group", "g"])
    assert run_tool(SHARE_GROUPS, [*tool, "--list"]).stdout.split() == []


def test_kafka_reads_the_records_of_our_groups(broker: Broker, tmp_path: Path) -> None:
    produce(broker, range(8))
    lines(member(broker, "consumer", "t", 8))
    broker.stop()
    decoded = ""
    for file in sorted(tmp_path.glob("__consumer_offsets-*/*.log")):
        decoded += run_tool(DUMP_LOG, ["--files", str(file), "--offsets-decoder"]).stdout
    kinds = {int(kind) for kind in re.findall(r'key: \{"type":"(\d+)"', decoded)}
    assert {1, 3, 5, 6, 7, 8} <= kinds
    assert "unable" not in decoded.lower()
