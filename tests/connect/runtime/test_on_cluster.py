"""Promise: on a Spark cluster that loses executors, tasks move elsewhere without loss or repetition."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from ottla.client.settings import Settings, parse_servers
from ottla.testing import Broker
from tests.connect.runtime.conftest import STRING, committed_records, wait_for
from tests.connect.runtime.worker_process import WorkerProcess

pytest.importorskip("pyspark")

from ottla.spark.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def _executors(cluster: StandaloneCluster) -> list[int]:
    """Return the executors, which are children of the cluster's workers."""
    parents = ",".join(map(str, cluster.worker_pids))
    found = subprocess.run(["pgrep", "-P", parents], capture_output=True, text=True, check=False).stdout
    return [int(each) for each in found.split()]


def test_a_source_survives_the_loss_of_executors(
    ottla_broker: Broker, ottla_topic: str, offset_topic: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    client = Settings(parse_servers(ottla_broker.bootstrap_servers))
    expected: list[str] = []

    def grow() -> None:
        new = [f"line {len(expected) + number}" for number in range(1000)]
        with lines.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        expected.extend(new)

    def arrived() -> bool:
        return len(committed_records(client, ottla_topic)) >= len(expected)

    (tmp_path / "spark").mkdir()
    cluster = StandaloneCluster(workers=1, cores=2, directory=tmp_path / "spark")
    try:
        cluster.start(240)
        settings = {
            "bootstrap.servers": ottla_broker.bootstrap_servers,
            "group.id": "on-cluster",
            "key.converter": STRING,
            "value.converter": STRING,
            "config.storage.topic": "configs",
            "status.storage.topic": "statuses",
            "offset.storage.topic": offset_topic,
            "spark.master": cluster.url,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
        }
        source = {
            "name": "in",
            "connector.class": "FileStreamSource",
            "file": str(lines),
            "topic": ottla_topic,
        }
        grow()
        worker = WorkerProcess(tmp_path, settings, source)
        try:
            wait_for(arrived, "nothing came", 300)
            for _ in range(2):
                grow()
                for executor in wait_for(lambda: _executors(cluster), "there is no executor"):
                    os.kill(executor, signal.SIGKILL)
                grow()
                wait_for(arrived, "the task did not run on", 300)
        finally:
            worker.kill()
    finally:
        cluster.stop()
    assert [(each.value or b"").decode() for each in committed_records(client, ottla_topic)] == expected
