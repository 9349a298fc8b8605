"""Promise: a worker that cannot reach the cluster shows its own latest statuses, and writes them later."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker import status_store
from ottla.connect.worker.status_state import Status
from ottla.connect.worker.status_store import KafkaStatusStore
from tests.broker_process import BrokerProcess
from tests.connect.worker.workers import distributed_properties, wait_for


def test_statuses_while_the_broker_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_store, "_WRITE_SECONDS", 0.5)
    with BrokerProcess(tmp_path / "data") as broker:
        config = WorkerConfig.from_properties(distributed_properties(broker.bootstrap_servers, "statuses"))
        mine, other = KafkaStatusStore(config), KafkaStatusStore(config)

        def trace(store: KafkaStatusStore, task: int) -> str | None:
            found = store.state().tasks.get("c", {}).get(task)
            return None if found is None else found.trace

        try:
            for store in (mine, other):
                store.start()
            mine.put_task("c", 0, Status("RUNNING", "here", 1, "before"))
            wait_for(lambda: trace(other, 0) == "before")
            broker.kill()
            for task in (0, 1):
                mine.put_task("c", task, Status("RUNNING", "here", 1, "waits for the broker"))
            wait_for(lambda: trace(mine, 0) == trace(mine, 1) == "waits for the broker")
            assert trace(other, 0) == "before"
            broker.start()
            wait_for(lambda: trace(other, 0) == trace(other, 1) == "waits for the broker")
        finally:
            for store in (mine, other):
                store.stop()
