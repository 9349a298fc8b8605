"""Promise: the status says which tasks do not run for want of Spark, and a worker without Spark ends when asked to."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from bench.measuring.wire import free_port
from ottla.testing import Broker
from tests.connect.worker.test_on_spark import running
from tests.connect.worker.workers import call, distributed_properties, wait_for

pytest.importorskip("pyspark")

from ottla.spark.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

#: For a busy machine; a quiet one takes a few seconds.
_END_SECONDS = 30.0


def _children(of: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(of)], capture_output=True, text=True, check=False).stdout
    return [int(each) for each in found.split()]


def test_two_tasks_on_one_core_and_then_no_spark_worker_at_all(tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    cluster = StandaloneCluster(workers=1, cores=1, directory=tmp_path / "spark")
    with Broker() as broker:
        try:
            cluster.start(240)
            url = f"http://127.0.0.1:{free_port()}"
            given = distributed_properties(broker.bootstrap_servers, "lost-spark")
            given |= {
                "listeners": url,
                "spark.master": cluster.url,
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "512m",
            }
            file = tmp_path / "worker.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
            with running(tmp_path, "connect-distributed", str(file)) as worker:
                config = {
                    "name": "users",
                    "connector.class": "Datagen",
                    "quickstart": "users",
                    "kafka.topic": "users",
                    "tasks.max": "2",
                }
                assert call(url, "PUT", "/connectors/users/config", config).status == 201

                def tasks() -> dict[str, list[str]]:
                    status: Any = call(url, "GET", "/connectors/users/status").body
                    found: dict[str, list[str]] = {}
                    for each in status.get("tasks", ()):
                        found.setdefault(each["state"], []).append(each.get("trace", ""))
                    return found

                wait_for(lambda: set(tasks()) == {"RUNNING", "UNASSIGNED"}, "not one of each", 240)
                assert "no free core" in tasks()["UNASSIGNED"][0]

                [spark_worker] = cluster.worker_pids
                executors = _children(spark_worker)
                for each in (spark_worker, *executors):
                    os.kill(each, signal.SIGKILL)
                wait_for(
                    lambda: [("no executor" in each) for each in tasks().get("UNASSIGNED", [])] == [True] * 2,
                    "the tasks are not shown as lost",
                    120,
                )
                before = time.monotonic()
                worker.terminate()
                worker.wait(_END_SECONDS)
                assert time.monotonic() - before < _END_SECONDS
        finally:
            cluster.stop()
