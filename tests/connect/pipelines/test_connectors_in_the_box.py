"""Built-in connectors from source to topic to sink, run by the engine, with workers that come and go."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.groups import committed_offsets
from ottla.client.cluster import Cluster
from ottla.testing import Broker
from tests.connect.runtime.conftest import Worker, wait_for

JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
WITHOUT_SCHEMAS = {**JSON, "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
COUNT = 2000


@pytest.fixture
def topic(ottla_broker: Broker) -> str:
    name = f"orders-{uuid.uuid4().hex[:6]}"
    ottla_broker.create_topic(name, 1)
    return name


def datagen(topic: str, **more: str) -> dict[str, str]:
    return {
        "name": f"datagen-{topic}",
        "connector.class": "io.confluent.kafka.connect.datagen.DatagenConnector",
        "kafka.topic": topic,
        "quickstart": "orders",
        "max.interval": "0",
        "iterations": str(COUNT),
        "random.seed": "7",
        **more,
    }


def committed(worker: Worker, group: str) -> int:
    cluster = Cluster(worker.config.client_settings)
    try:
        return sum(committed_offsets(cluster, group).values())
    finally:
        cluster.close()


def test_made_up_orders_are_in_the_topic_once_though_workers_change(
    new_worker: Callable[..., Worker], topic: str
) -> None:
    config = datagen(topic, **WITHOUT_SCHEMAS)
    for already in (1, 600, COUNT):
        worker = new_worker()
        connector = worker.start(config)
        wait_for(lambda worker=worker, already=already: len(worker.records(topic)) >= already)
        connector.stop()
    values = [json.loads(value or "null") for value in worker.values(topic)]
    assert [value["orderid"] for value in values] == list(range(COUNT))
    assert set(values[0]) == {"ordertime", "orderid", "itemid", "orderunits", "address"}


def test_from_made_up_orders_to_parquet_files(
    new_worker: Callable[..., Worker], topic: str, tmp_path: Path
) -> None:
    """The sink commits offsets of closed files only; records of an open file are delivered again."""
    import pyarrow.parquet as pq

    config = {
        "name": f"files-{topic}",
        "connector.class": "FilesSink",
        "topics": topic,
        "store.url": str(tmp_path),
        "format.class": "ParquetFormat",
        "flush.size": "300",
        **JSON,
    }
    first = new_worker()
    source = first.start(datagen(topic, **JSON))
    sink = first.start(config)
    wait_for(lambda: len(list(tmp_path.rglob("*.parquet"))) >= 1)
    sink.stop()
    wait_for(lambda: len(first.records(topic)) == COUNT)
    source.stop()
    second = new_worker()
    second.start(config)
    wait_for(lambda: len(list(tmp_path.rglob("*.parquet"))) == COUNT // 300)
    assert committed(second, f"connect-files-{topic}") < COUNT
    files = sorted(tmp_path.rglob("*.parquet"))
    assert files[0].name == f"{topic}+0+0000000000.snappy.parquet"
    found = [pq.read_table(path).column("orderid").to_pylist() for path in files]
    assert [len(each) for each in found] == [300] * (COUNT // 300)
    assert [id for each in found for id in each] == list(range(COUNT // 300 * 300))


def test_from_made_up_users_to_a_delta_table_by_key(
    new_worker: Callable[..., Worker], topic: str, tmp_path: Path
) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    config = {
        "name": f"delta-{topic}",
        "connector.class": "DeltaSink",
        "topics": topic,
        "table.uri": str(tmp_path / "users"),
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "userid",
        **JSON,
    }
    first = new_worker()
    first.start(datagen(topic, **JSON, quickstart="users"))
    sink = first.start(config)
    wait_for(lambda: committed(first, f"connect-delta-{topic}") > 0)
    sink.stop()
    wait_for(lambda: len(first.records(topic)) == COUNT)
    second = new_worker()
    second.start(config)
    latest = {}
    for value in second.values(topic):
        payload = json.loads(value or "null")["payload"]
        latest[payload["userid"]] = payload

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            deltalake.DeltaTable(str(tmp_path / "users")).to_pyarrow_table().to_pylist()
        )
        return found

    wait_for(lambda: {row["userid"]: row for row in rows()} == latest)
    assert len(rows()) == len(latest)


def test_from_a_directory_of_csv_files_to_json_files(
    new_worker: Callable[..., Worker], topic: str, tmp_path: Path
) -> None:
    for name in ("in", "done", "bad", "out"):
        (tmp_path / name).mkdir()
    for number in range(5):
        rows = "".join(f"{number * 100 + row},name {row}\n" for row in range(100))
        (tmp_path / "in" / f"{number}.csv").write_text(f"id,name\n{rows}")
    source = {
        "name": f"csv-{topic}",
        "connector.class": "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector",
        "topic": topic,
        "input.path": str(tmp_path / "in"),
        "finished.path": str(tmp_path / "done"),
        "error.path": str(tmp_path / "bad"),
        "input.file.pattern": r".*\.csv",
        "csv.first.row.as.header": "true",
        "schema.generation.enabled": "true",
        "batch.size": "30",
        **WITHOUT_SCHEMAS,
    }
    sink = {
        "name": f"json-{topic}",
        "connector.class": "FilesSink",
        "topics": topic,
        "store.url": str(tmp_path / "out"),
        "flush.size": "50",
        **WITHOUT_SCHEMAS,
    }
    first = new_worker()
    reading = first.start(source)
    wait_for(lambda: len(first.records(topic)) >= 30)
    reading.stop()
    second = new_worker()
    second.start(source)
    second.start(sink)
    wait_for(lambda: len(list((tmp_path / "done").iterdir())) == 5)
    wait_for(lambda: len(list((tmp_path / "out").rglob("*.json"))) == 500 // 50)
    lines = [line for path in (tmp_path / "out").rglob("*.json") for line in path.read_text().splitlines()]
    assert sorted(int(json.loads(line)["id"]) for line in lines) == list(range(500))


def test_a_bad_file_fails_the_task_with_its_sentence(worker: Worker, topic: str, tmp_path: Path) -> None:
    for name in ("in", "bad"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,2\n3\n")
    config = {
        "name": f"bad-{topic}",
        "connector.class": "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector",
        "topic": topic,
        "input.path": str(tmp_path / "in"),
        "error.path": str(tmp_path / "bad"),
        "cleanup.policy": "DELETE",
        "input.file.pattern": ".*",
        "schema.generation.enabled": "true",
        **WITHOUT_SCHEMAS,
    }
    connector = worker.start(config)
    wait_for(lambda: any(task.state.name == "FAILED" for task in connector.status.tasks))
    [task] = connector.status.tasks
    assert "a.csv, line 2: there are 1 fields, but 2 columns" in (task.trace or "")
    assert len(worker.records(topic)) == 1, "what was before it is in the topic"
    assert [path.name for path in (tmp_path / "bad").iterdir()] == ["a.csv"]
