"""A worker shows its connectors and tasks, and its requests."""

from __future__ import annotations

import urllib.request
import uuid
from pathlib import Path

from tests.broker.metrics.scraping import Metrics
from tests.spark.connect.worker.workers import Worker


def test_states_of_connectors_and_tasks_are_metrics(worker: Worker, lines: Path) -> None:
    name = f"c-{uuid.uuid4().hex[:8]}"
    config = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "t", "tasks.max": "1"}
    assert worker.call("POST", "/connectors", {"name": name, "config": config}).status == 201
    worker.wait_until(name, "RUNNING", ["RUNNING"])
    with urllib.request.urlopen(f"{worker.url}/metrics", timeout=20) as answer:
        found = Metrics(answer.read().decode())
    assert found.value("kafka_connect_worker_connector_count") == 1
    assert found.value("kafka_connect_worker_task_count") == 1
    assert found.value("kafka_connect_connector_status", connector=name, task="0", status="running") == 1
    assert found.value("ottla_connect_connector_status", connector=name, status="running") == 1
    created = {"server": "connect", "method": "POST", "route": "/connectors", "status": "201"}
    assert found.value("ottla_http_requests_total", **created) == 1
