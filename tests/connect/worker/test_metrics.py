"""A worker exposes metrics of its connectors, tasks and requests."""

from __future__ import annotations

import urllib.request
import uuid
from pathlib import Path

from ottla.testing import Broker
from tests.broker.metrics.scraping import Metrics
from tests.connect.worker.workers import SINK, Worker, distributed_properties, wait_for


def scraped(worker: Worker) -> Metrics:
    with urllib.request.urlopen(f"{worker.url}/metrics", timeout=20) as answer:
        return Metrics(answer.read().decode())


def test_states_of_connectors_and_tasks_are_metrics(worker: Worker, lines: Path) -> None:
    name = f"c-{uuid.uuid4().hex[:8]}"
    config = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "t", "tasks.max": "1"}
    assert worker.call("POST", "/connectors", {"name": name, "config": config}).status == 201
    worker.wait_until(name, "RUNNING", ["RUNNING"])
    found = scraped(worker)
    assert found.value("kafka_connect_worker_connector_count") == 1
    assert found.value("kafka_connect_worker_task_count") == 1
    assert found.value("kafka_connect_connector_status", connector=name, task="0", status="running") == 1
    assert found.value("ottla_connect_connector_status", connector=name, status="running") == 1
    assert found.value("kafka_connect_worker_connector_total_task_count", connector=name) == 1
    assert found.value("kafka_connect_worker_connector_running_task_count", connector=name) == 1
    assert found.value("kafka_connect_worker_connector_failed_task_count", connector=name) == 0
    created = {"server": "connect", "method": "POST", "route": "/connectors", "status": "201"}
    assert found.value("ottla_http_requests_total", **created) == 1


def test_each_worker_shows_what_it_runs_so_that_sums_are_right(broker: Broker, tmp_path: Path) -> None:
    """Dashboards query sum(kafka_connect_worker_connector_count)."""
    properties = distributed_properties(broker.bootstrap_servers)
    names = sorted(f"c-{uuid.uuid4().hex[:8]}" for _ in range(2))
    with Worker(properties) as one, Worker(properties) as other:
        one.wait_until_ready()
        other.wait_until_ready()
        for name in names:
            config = {"connector.class": SINK, "topics": "t", "file": str(tmp_path / name), "tasks.max": "1"}
            assert one.call("PUT", f"/connectors/{name}/config", config).status == 201

        def shown() -> list[str]:
            samples = scraped(one).samples + scraped(other).samples
            return sorted(
                each.labels["connector"] for each in samples if each.name == "kafka_connect_connector_status"
            )

        wait_for(lambda: shown() == names, "each is shown once")
        for name in ("kafka_connect_worker_connector_count", "kafka_connect_worker_task_count"):
            assert scraped(one).value(name) + scraped(other).value(name) == 2
