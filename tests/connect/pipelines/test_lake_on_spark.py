"""Generated orders into a topic, and on into files and a Delta table, on Spark, with workers that are killed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ottla.client.settings import Settings, parse_servers
from ottla.testing import Broker
from tests.connect.runtime.conftest import committed_records, wait_for
from tests.connect.runtime.worker_process import WorkerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

JSON = "org.apache.kafka.connect.json.JsonConverter"
# Generated in bursts, so that kills hit them halfway.
COUNT = 4000


def test_each_order_is_once_in_the_topic_the_files_and_the_table(
    ottla_broker: Broker, ottla_topic: str, offset_topic: str, tmp_path: Path
) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    import pyarrow.parquet as pq

    settings = {
        "bootstrap.servers": ottla_broker.bootstrap_servers,
        "group.id": "lake",
        "key.converter": JSON,
        "value.converter": JSON,
        "config.storage.topic": "configs",
        "status.storage.topic": "statuses",
        "offset.storage.topic": offset_topic,
        "offset.flush.interval.ms": "200",
    }
    source = {
        "name": f"orders-{ottla_topic}",
        "connector.class": "Datagen",
        "kafka.topic": ottla_topic,
        "quickstart": "orders",
        "max.interval": "1",
        "iterations": str(COUNT),
    }
    files = {
        "name": f"files-{ottla_topic}",
        "connector.class": "FilesSink",
        "topics": ottla_topic,
        "store.url": str(tmp_path / "files"),
        "format.class": "ParquetFormat",
        "flush.size": "250",
    }
    table = {
        "name": f"table-{ottla_topic}",
        "connector.class": "DeltaSink",
        "topics": ottla_topic,
        "table.uri": str(tmp_path / "table"),
    }
    client = Settings(parse_servers(ottla_broker.bootstrap_servers))

    def ids() -> list[int]:
        return [
            json.loads(each.value or b"null")["payload"]["orderid"]
            for each in committed_records(client, ottla_topic)
        ]

    def in_table() -> list[int]:
        path = str(tmp_path / "table")
        if not deltalake.DeltaTable.is_deltatable(path):
            return []
        return sorted(deltalake.DeltaTable(path).to_pyarrow_table().column("orderid").to_pylist())

    worker = WorkerProcess(tmp_path, settings, source, files, table)
    wait_for(lambda: len(in_table()) > 0, "nothing came", 240)
    time.sleep(0.3)
    worker.kill()
    worker = WorkerProcess(tmp_path, settings, source, files, table)
    try:
        wait_for(lambda: len(ids()) == COUNT, "orders are missing in the topic", 240)
        wait_for(lambda: len(in_table()) >= COUNT, "orders are missing in the table", 120)
        wait_for(
            lambda: len(list((tmp_path / "files").rglob("*.parquet"))) >= COUNT // 250,
            "files are missing",
            60,
        )
    finally:
        worker.kill()
    assert ids() == list(range(COUNT))
    assert in_table() == list(range(COUNT))
    found = [
        pq.read_table(path).column("orderid").to_pylist() for path in (tmp_path / "files").rglob("*.parquet")
    ]
    assert sorted(id for each in found for id in each) == list(range(COUNT))
