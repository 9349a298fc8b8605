"""Promise: a bank's accounts flow into a topic and on into another table. Every visible state of the table has the
right sum, while database, broker, tasks and workers restart at random.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import Engine, RunningConnector, State
from ottla.connect.runtime.spark.host import ThreadHost
from tests.broker_process import BrokerProcess
from tests.connect.connectors.cdc.bank import TABLE, TOTAL, Bank, insert_all
from tests.connect.connectors.cdc.bank_connectors import capturing, copying, reading_rows
from tests.connect.connectors.postgres import PostgresDatabase
from tests.connect.runtime.conftest import committed_records, wait_for

JSON = "org.apache.kafka.connect.json.JsonConverter"
QUERY = "SELECT id, balance, version FROM {} ORDER BY id"


def test_the_copy_of_a_bank_through_a_topic(postgres: PostgresDatabase, tmp_path: Path) -> None:
    run(postgres, tmp_path, ["tasks", "database"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_copy_of_a_bank_with_twenty_restarts(postgres: PostgresDatabase, tmp_path: Path) -> None:
    run(postgres, tmp_path, random.choices(["broker", "database", "tasks", "worker"], k=20))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_rows_of_a_table_with_twenty_restarts(postgres: PostgresDatabase, tmp_path: Path) -> None:
    """The JDBC source under the same faults: each row once, in the order of its ids."""
    postgres.run("CREATE TABLE events (id SERIAL PRIMARY KEY, note TEXT)")
    broker, worker = cluster_for(tmp_path, "rows-events")
    running = Running(worker, [reading_rows(postgres)])
    written: list[int] = []

    def all_there() -> bool:
        return running.settled(worker, "rows-events", len(written))

    try:
        for fault in random.choices(["broker", "database", "tasks", "worker"], k=20):
            postgres.run(
                f"INSERT INTO events (note) SELECT 'x' FROM generate_series(1, {random.randrange(1, 60)})"
            )
            # A killed server skips ids.
            written = [number for (number,) in postgres.run("SELECT id FROM events ORDER BY id")]
            if random.random() < 0.5:
                wait_for(all_there, "rows are missing", 120)
            inject(fault, broker, postgres, running)
        wait_for(all_there, "rows are missing", 120)
        found = committed_records(worker.client_settings, "rows-events")
        assert [json.loads(each.value or b"")["payload"]["id"] for each in found] == written
    finally:
        running.stop()
        broker.stop()


def cluster_for(folder: Path, topic: str) -> tuple[BrokerProcess, WorkerConfig]:
    """A broker and worker settings. The topic has one partition, which keeps transactions together."""
    broker = BrokerProcess(folder / "data")
    broker.start()
    worker = WorkerConfig.from_properties(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "bank",
            "key.converter": JSON,
            "value.converter": JSON,
            "offset.flush.interval.ms": "100",
            **{f"{kind}.storage.topic": f"bank-{kind}" for kind in ("config", "offset", "status")},
        }
    )
    cluster = Cluster(worker.client_settings)
    create_topic(cluster, "bank-offset", partitions=5, configs={"cleanup.policy": "compact"})
    create_topic(cluster, topic, partitions=1)
    cluster.close()
    return broker, worker


def inject(fault: str, broker: BrokerProcess, postgres: PostgresDatabase, running: Running) -> None:
    if fault == "broker":
        broker.kill()
        broker.start()
    elif fault == "database":
        postgres.server.restart()
    elif fault == "tasks":
        running.restart()
    else:
        running.replace()


def run(postgres: PostgresDatabase, folder: Path, faults: list[str]) -> None:
    postgres.run(TABLE, insert_all())
    broker, worker = cluster_for(folder, "bank.public.accounts")
    running = Running(worker, [capturing(postgres), copying(postgres)])
    bank = Bank(postgres, 3, psycopg.Error)
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.002):
            bank.work(1)

    teller = threading.Thread(target=work)
    teller.start()
    try:
        for fault in faults:
            seen = len(postgres.run("SELECT 1 FROM pg_tables WHERE tablename = 'copied'"))
            # The table is created before its first rows are committed.
            if seen and postgres.run("SELECT 1 FROM copied LIMIT 1"):
                assert postgres.run("SELECT sum(balance) FROM copied") == [(TOTAL,)]
            at = len(committed_records(worker.client_settings, "bank.public.accounts"))
            wait_for(lambda: running.settled(worker, "bank.public.accounts", at + 5), "no changes came", 120)  # noqa: B023
            inject(fault, broker, postgres, running)
    finally:
        stop.set()
        teller.join()
        bank.close()
    try:
        expected = postgres.run(QUERY.format("accounts"))
        wait_for(
            lambda: running.healthy() and copied(postgres) == expected, "the copy is not the original", 180
        )
    finally:
        running.stop()
        broker.stop()


def copied(postgres: PostgresDatabase) -> list[tuple[Any, ...]]:
    if not postgres.run("SELECT 1 FROM pg_tables WHERE tablename = 'copied'"):
        return []
    return postgres.run(QUERY.format("copied"))


class Running:
    """The two connectors, on one worker after another."""

    def __init__(self, worker: WorkerConfig, configs: list[dict[str, str]]) -> None:
        self._worker = worker
        self._configs = configs
        self._begin()

    def _begin(self) -> None:
        self._engine = Engine(None, self._worker, host=ThreadHost())
        start: Callable[..., RunningConnector] = self._engine.start
        self._connectors = [
            start(each["name"], each, on_change=lambda status: None) for each in self._configs
        ]

    def healthy(self) -> bool:
        """Restart connectors that were fenced or met a stopped broker, like an operator."""
        for each in self._connectors:
            if (
                any(task.state is State.FAILED for task in each.status.tasks)
                or each.status.state is State.FAILED
            ):
                each.restart()
        return True

    def settled(self, worker: WorkerConfig, topic: str, count: int) -> bool:
        return self.healthy() and len(committed_records(worker.client_settings, topic)) >= count

    def restart(self) -> None:
        for each in self._connectors:
            each.restart()

    def replace(self) -> None:
        self.stop()
        self._begin()

    def stop(self) -> None:
        for each in self._connectors:
            each.stop()
        self._engine.close()
