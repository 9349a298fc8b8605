"""Promise: a source writes each record once and a sink misses none while brokers are killed and tasks restarted."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import Engine, RunningConnector, State
from ottla.connect.runtime.spark.host import ThreadHost
from tests.broker_process import BrokerProcess
from tests.connect.runtime.conftest import STRING, committed_records, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROUNDS = 20


def test_each_line_is_in_the_topic_once_and_in_the_other_file(tmp_path: Path) -> None:
    lines, out = tmp_path / "lines", tmp_path / "out"
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    worker = WorkerConfig.from_properties(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "chaos",
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.flush.interval.ms": "100",
            **{f"{kind}.storage.topic": f"chaos-{kind}" for kind in ("config", "offset", "status")},
        }
    )
    cluster = Cluster(worker.client_settings)
    create_topic(cluster, "chaos-offset", partitions=5, configs={"cleanup.policy": "compact"})
    create_topic(cluster, "chaos", partitions=1)
    cluster.close()
    expected: list[str] = []
    finished = threading.Event()

    def grow() -> None:
        with lines.open("a") as file:
            while not finished.wait(0.005):
                new = [f"line {len(expected) + number}" for number in range(20)]
                expected.extend(new)
                file.writelines(f"{line}\n" for line in new)
                file.flush()

    grower = threading.Thread(target=grow)
    grower.start()
    engines = [Engine(None, worker, host=ThreadHost())]
    source = {"name": "in", "connector.class": "FileStreamSource", "file": str(lines), "topic": "chaos"}
    sink = {"name": "out", "connector.class": "FileStreamSink", "file": str(out), "topics": "chaos"}

    def start() -> list[RunningConnector]:
        return [
            engines[-1].start(each["name"], each, on_change=lambda status: None) for each in (source, sink)
        ]

    running = start()
    try:
        for _ in range(ROUNDS):
            time.sleep(random.random())
            what = random.choice(["broker", "tasks", "worker", "pause"])
            if what == "broker":
                broker.kill()
                broker.start()
            elif what == "tasks":
                for each in running:
                    each.restart()
            elif what == "pause":
                for each in running:
                    each.pause()
                    each.resume()
            else:
                # Another worker takes over before the old one has noticed.
                old, before = engines[-1], running
                engines.append(Engine(None, worker, host=ThreadHost()))
                running = start()
                for each in before:
                    each.stop()
                old.close()
                # A fenced task reports it, and can be restarted.
                for each in running:
                    wait_for(lambda: each.status.tasks)  # noqa: B023
            for each in running:
                if any(task.state is State.FAILED for task in each.status.tasks):
                    each.restart()
        finished.set()
        grower.join()
        settings = worker.client_settings
        wait_for(lambda: len(committed_records(settings, "chaos")) >= len(expected), "lines are missing", 120)
        found = [(each.value or b"").decode() for each in committed_records(settings, "chaos")]
        assert found == expected
        wait_for(lambda: set(out.read_text().splitlines()) == set(expected), "the sink has missed some", 120)
    finally:
        finished.set()
        for each in running:
            each.stop()
        engines[-1].close()
        broker.stop()
