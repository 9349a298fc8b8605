"""Promise: a Flume agent's Kafka sink and Kafka source carry every event once, from a socket to files."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.peers.apache_kafka import Unavailable, java, resolve
from ottla.testing import Broker
from ottla.testing.ports import free_ports

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

VERSION = "1.11.0"
ARTIFACTS = (
    f"org.apache.flume:flume-ng-node:{VERSION}",
    f"org.apache.flume.flume-ng-sources:flume-kafka-source:{VERSION}",
    f"org.apache.flume.flume-ng-sinks:flume-ng-kafka-sink:{VERSION}",
)
EVENTS = 2000
# socket → memory → topic → memory → files
AGENT = """
agent.sources = lines topic
agent.channels = in out
agent.sinks = topic files

agent.sources.lines.type = netcat
agent.sources.lines.bind = 127.0.0.1
agent.sources.lines.port = {port}
agent.sources.lines.channels = in
agent.channels.in.type = memory
agent.channels.in.capacity = 10000
agent.sinks.topic.type = org.apache.flume.sink.kafka.KafkaSink
agent.sinks.topic.kafka.bootstrap.servers = {servers}
agent.sinks.topic.kafka.topic = events
agent.sinks.topic.kafka.producer.acks = all
agent.sinks.topic.channel = in

agent.sources.topic.type = org.apache.flume.source.kafka.KafkaSource
agent.sources.topic.kafka.bootstrap.servers = {servers}
agent.sources.topic.kafka.topics = events
agent.sources.topic.kafka.consumer.group.id = flume
agent.sources.topic.kafka.consumer.auto.offset.reset = earliest
agent.sources.topic.channels = out
agent.channels.out.type = memory
agent.channels.out.capacity = 10000
agent.channels.out.transactionCapacity = 1000
agent.sinks.files.type = file_roll
agent.sinks.files.sink.directory = {files}
agent.sinks.files.sink.rollInterval = 0
agent.sinks.files.channel = out
"""


@pytest.fixture(scope="module")
def jars() -> Path:
    try:
        return resolve(f"flume-{VERSION}", ARTIFACTS)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("events", partitions=3)
        yield broker


@contextmanager
def agent(settings: Path, jars: Path, port: int) -> Iterator[Path]:
    """Run an agent and yield the path of its log."""
    command = [
        java(),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-cp",
        f"{jars}/*",
        "org.apache.flume.node.Application",
    ]
    command += ["--name", "agent", "--conf-file", str(settings), "--no-reload-conf"]
    log = settings.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=settings.parent)
    try:
        until(lambda: process.poll() is not None or accepts(port), log)
        assert process.poll() is None, log.read_text()
        yield log
    finally:
        process.terminate()
        process.wait(60)


def test_an_agent_carries_every_event_once_also_when_it_is_started_again(
    broker: Broker, jars: Path, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    [port] = free_ports(1)
    settings = tmp_path / "agent.properties"
    settings.write_text(AGENT.format(port=port, servers=broker.bootstrap_servers, files=files))
    events = [f"event {number}" for number in range(EVENTS)]
    for begin in (0, EVENTS // 2):
        end = begin + EVENTS // 2
        with agent(settings, jars, port) as log:
            send(port, events[begin:end])
            until(lambda end=end: len(written(files)) >= end, log)
    assert sorted(written(files)) == sorted(events)
    kept = [record.value for partition in range(3) for record in broker.records("events", partition)]
    assert sorted(kept) == sorted(event.encode() for event in events)


def send(port: int, events: list[str]) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall("".join(f"{event}\n" for event in events).encode())
        with connection.makefile() as answers:
            assert [answers.readline() for _ in events] == ["OK\n"] * len(events)


def accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def written(files: Path) -> list[str]:
    return [line for file in files.iterdir() for line in file.read_text().splitlines()]


def until(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)
