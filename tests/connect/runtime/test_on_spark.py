"""Connectors on Spark, and the state after their worker is killed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from ottla.client.settings import Settings, parse_servers
from ottla.testing import Broker
from tests.connect.runtime.conftest import STRING, committed_records, wait_for
from tests.connect.runtime.worker_process import WorkerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_source_and_a_sink_give_each_line_once_while_their_workers_are_killed(
    ottla_broker: Broker, ottla_topic: str, offset_topic: str, tmp_path: Path
) -> None:
    """Each worker starts with a new Spark session: only offsets count."""
    lines, out = tmp_path / "lines", tmp_path / "out"
    settings = {
        "bootstrap.servers": ottla_broker.bootstrap_servers,
        "group.id": "killed",
        "key.converter": STRING,
        "value.converter": STRING,
        "config.storage.topic": "configs",
        "status.storage.topic": "statuses",
        "offset.storage.topic": offset_topic,
        "offset.flush.interval.ms": "200",
    }
    source = {"name": "in", "connector.class": "FileStreamSource", "file": str(lines), "topic": ottla_topic}
    sink = {
        "name": f"out-{ottla_topic}",
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": ottla_topic,
    }
    client = Settings(parse_servers(ottla_broker.bootstrap_servers))
    expected: list[str] = []

    def grow(count: int) -> None:
        new = [f"line {len(expected) + number} {'x' * random.randrange(200)}" for number in range(count)]
        with lines.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        expected.extend(new)

    grow(5000)
    for _ in range(2):
        worker = WorkerProcess(tmp_path, settings, source, sink)
        grow(100)
        first = len(expected)
        wait_for(lambda: len(committed_records(client, ottla_topic)) >= first, "nothing came", 240)  # noqa: B023
        end = time.monotonic() + random.random()
        while time.monotonic() < end:
            grow(50)
            time.sleep(0.01)
        worker.kill()
    grow(10)
    worker = WorkerProcess(tmp_path, settings, source, sink)
    wait_for(lambda: len(committed_records(client, ottla_topic)) >= len(expected), "lines are missing", 240)
    found = [(each.value or b"").decode() for each in committed_records(client, ottla_topic)]
    assert found == expected
    wait_for(lambda: set(out.read_text().splitlines()) == set(expected), "lines are missing in the file", 120)
    worker.kill()
