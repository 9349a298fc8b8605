"""Promises about the broker's own log: one format, the broker's id, every state change, and nothing else."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker.lifecycle import server_log
from ottla.protocol.messages.cluster import ApiVersionsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from ottla.protocol.records import Record, build_batch
from ottla.testing.ports import ReservedPorts
from tests.wire_client import WireClient

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,(\d{3})\] (INFO|WARN|ERROR) (\[.+?\] .+) \(([\w.]+)\)")


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@contextmanager
def broker(directory: Path, log: Path, *options: str) -> Iterator[str]:
    """A broker that logs to a file and is stopped with SIGTERM."""
    reserved = ReservedPorts(1)
    address = f"127.0.0.1:{reserved.numbers[0]}"
    command = [sys.executable, "-m", "ottla", "start", "--quiet", "--listen", address]
    command += ["--data", str(directory), "--set", "broker.id=7", "--log-level", "info", *options]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)
    try:
        until(lambda: "] started" in log.read_text() or process.poll() is not None)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


def use(address: str) -> None:
    """Create a topic, write to it, and delete it."""
    with WireClient(address) as client:
        topic = CreatableTopic(name="t", num_partitions=40, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
        batch = build_batch([Record(0, 0, None, b"v", ())])
        for _ in range(50):
            data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])]
            client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
            client.call(ApiVersionsRequest(), 0)
        client.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000), 5)


EXPECTED = (
    "[KafkaServer id=7] starting, with the data in ",
    "[KafkaServer id=7] Listening on 127.0.0.1:",
    "[KafkaServer id=7] started",
    "Registered broker 7 at /brokers/ids/7",
    "Created topic t with 40 partitions",
    "Opened the logs of topic t: partitions 0-39",
    "Deleted the logs of topic t",
    "[KafkaServer id=7] shutting down",
    "[KafkaServer id=7] shut down completed",
)


def test_every_line_has_kafkas_fields_and_every_change_of_state_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with broker(tmp_path / "data", log) as address:
        use(address)
    lines = [LINE.fullmatch(line) for line in log.read_text().splitlines()]
    assert all(lines), log.read_text()
    found = [match for match in lines if match is not None]
    assert "[KafkaServer id=7] started (kafka.server.KafkaServer)" in log.read_text()
    for expected in EXPECTED:
        assert any(expected in match[3] for match in found), expected
    assert all(re.match(r"\[[^]]*[= ]7\] ", match[3]) for match in found), "which broker was it?"
    assert len({match[1] for match in found}) > 1, "milliseconds are milliseconds"
    assert any(match[4] == "kafka.server.KafkaServer" for match in found)
    assert len(found) < 30, "there is a line per request or per partition"
    # After a restart each partition starts a new leader epoch.
    log.unlink()
    with broker(tmp_path / "data", log) as address, WireClient(address) as client:
        topic = CreatableTopic(name="again", num_partitions=1, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
    log.unlink()
    with broker(tmp_path / "data", log):
        pass
    assert re.search(r"\[Partition again-0 broker=7\] Leader in epoch 1 from offset 0 on", log.read_text())
    assert re.search(r"Loading \d+ logs from .+, after a clean shutdown", log.read_text())


def test_as_json_every_line_is_an_object(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with broker(tmp_path / "data", log, "--log-format", "json") as address:
        use(address)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {tuple(line) for line in lines} == {("time", "level", "broker", "logger", "message")}
    assert {line["broker"] for line in lines} == {7}
    for expected in EXPECTED:
        assert any(expected in line["message"] for line in lines), expected


@pytest.mark.parametrize(
    ("logger", "prefix"),
    [
        ("ottla.cluster.controller.controller", "[Controller id=3] "),
        ("ottla.log.log_directory", "[LogManager broker=3] "),
        ("ottla.broker.network.listener", "[SocketServer brokerId=3] "),
        ("anything", "[KafkaServer id=3] "),
    ],
)
def test_who_says_something_is_shown_as_in_kafka(
    monkeypatch: pytest.MonkeyPatch, logger: str, prefix: str
) -> None:
    monkeypatch.setattr(server_log._Identity, "broker_id", 3)
    formatter = server_log.KafkaFormatter()
    record = logging.LogRecord(logger, logging.WARNING, "", 0, "%s happened", ("it",), None)
    record.created = 1_700_000_000.0456
    shown = formatter.format(record)
    assert shown.endswith(f",045] WARN {prefix}it happened ({logger})")
    record.msg = "[Partition t-0 broker=3] %s happened"
    assert formatter.format(record).endswith(f"WARN [Partition t-0 broker=3] it happened ({logger})")
