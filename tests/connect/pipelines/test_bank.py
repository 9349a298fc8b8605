"""A bank's accounts, captured from PostgreSQL into a topic, and on into a Delta and an Iceberg table by key.

Promise: the tables converge to the database's contents, whatever is stopped or killed during the transfers.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
import psycopg
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from ottla.connect.runtime.engine import Engine
from ottla.connect.runtime.spark.host import ThreadHost
from ottla.testing import Broker
from tests.connect.connectors.cdc.bank import TABLE, TOTAL, Bank, insert_all
from tests.connect.connectors.cdc.bank_connectors import TOPIC, into_delta
from tests.connect.connectors.postgres import PostgresDatabase, PostgresServer
from tests.connect.runtime.conftest import Worker, wait_for

JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
FAULTS = 20


@pytest.fixture
def database() -> Iterator[PostgresDatabase]:
    with PostgresServer() as server:
        found = PostgresDatabase(server)
        yield found
        found.drop()


def configs(database: PostgresDatabase, directory: Path) -> dict[str, dict[str, str]]:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }
    return {
        "source": {
            "name": "bank",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            **database.capture,
            "poll.interval.ms": "10",
            **JSON,
        },
        "delta": {**into_delta(directory), **JSON},
        "iceberg": {
            "name": "iceberg",
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "topics": TOPIC,
            "iceberg.tables": "bank.accounts",
            "iceberg.tables.auto-create-enabled": "true",
            "cdc.envelope": "debezium",
            **{f"iceberg.catalog.{name}": value for name, value in catalog.items()},
            **JSON,
        },
    }


class Workers:
    """One worker per connector, so that a test can replace each separately."""

    def __init__(self, broker: Broker, connectors: dict[str, dict[str, str]]) -> None:
        self._broker, self._connectors = broker, connectors
        self._running: dict[str, Worker] = {}
        self._groups = {name: f"workers-{name}-{uuid.uuid4().hex[:6]}" for name in connectors}

    def replace(self, name: str) -> None:
        """Stop the old worker and start another."""
        if name in self._running:
            self._running.pop(name).close()
        settings = {"offset.storage.topic": "offsets", "group.id": self._groups[name]}
        worker = Worker(self._broker, settings, lambda config: Engine(None, config, host=ThreadHost()))
        self._running[name] = worker
        worker.start(self._connectors[name])

    def replace_failed(self) -> None:
        """Restart failed connectors, like an operator."""
        for name, worker in list(self._running.items()):
            status = worker.running[0].status
            if "FAILED" in (status.state.name, *(task.state.name for task in status.tasks)):
                self.replace(name)

    def close(self) -> None:
        for worker in self._running.values():
            worker.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tables_follow_the_database_through_faults(
    database: PostgresDatabase, fresh_ottla_broker: Broker, tmp_path: Path
) -> None:
    broker = fresh_ottla_broker
    broker.create_topic("offsets", 1, config={"cleanup.policy": "compact"})
    broker.create_topic(TOPIC, 1)
    database.run(TABLE, "ALTER TABLE accounts REPLICA IDENTITY FULL", insert_all())
    connectors = configs(database, tmp_path)
    bank = Bank(database, 1, psycopg.Error)
    workers = Workers(broker, connectors)
    chance = random.Random(1)
    try:
        for name in connectors:
            workers.replace(name)
        for _ in range(FAULTS):
            bank.work(20)
            fault = chance.choice(["source", "delta", "iceberg", "database", "broker"])
            if fault == "database":
                database.server.kill()
                database.server.restart()
            elif fault == "broker":
                broker.restart()
            else:
                workers.replace(fault)
            workers.replace_failed()
        bank.work(20)
        expected = {id: (balance, version) for id, balance, version in database.run("SELECT * FROM accounts")}
        assert sum(balance for balance, _ in expected.values()) == TOTAL
        for read in (delta_rows, iceberg_rows):
            wait_for(
                lambda read=read: workers.replace_failed() or _accounts(read(tmp_path)) == expected,
                seconds=120,
            )
            assert len(read(tmp_path)) == len(expected), "no row is there twice"
    finally:
        bank.close()
        workers.close()


def _accounts(rows: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    return {row["id"]: (row["balance"], row["version"]) for row in rows}


def delta_rows(directory: Path) -> list[dict[str, Any]]:
    if not DeltaTable.is_deltatable(str(directory / "delta")):
        return []
    found: list[dict[str, Any]] = DeltaTable(str(directory / "delta")).to_pyarrow_table().to_pylist()
    return found


def iceberg_rows(directory: Path) -> list[dict[str, Any]]:
    catalog = load_catalog(
        "iceberg",
        type="sql",
        uri=f"sqlite:///{directory}/catalog.db",
        warehouse=f"file://{directory}/warehouse",
    )
    if not catalog.table_exists("bank.accounts"):
        return []
    found: list[dict[str, Any]] = catalog.load_table("bank.accounts").scan().to_arrow().to_pylist()
    return found
