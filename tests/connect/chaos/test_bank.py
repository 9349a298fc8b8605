"""Promise: a bank's accounts flow into a topic and on into another table and a lake. Every committed state has the
right sum and no duplicates, while workers, executors, the broker and the database are killed at random. The rows of the
JDBC source and the lines of a file appear in their topics once, in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("deltalake")
import psycopg
from deltalake import DeltaTable

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import LATEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings, parse_servers
from tests.broker_process import BrokerProcess
from tests.connect.chaos.worker_processes import WorkerProcess, failures, statuses
from tests.connect.connectors.cdc.bank import TABLE, TOTAL, Bank, insert_all
from tests.connect.connectors.cdc.bank_connectors import (
    TOPIC,
    capturing,
    copying,
    into_delta,
    reading_rows,
)
from tests.connect.connectors.postgres import PostgresDatabase, PostgresServer
from tests.connect.runtime.conftest import committed_records
from tests.connect.worker.workers import SOURCE, STRING, call, distributed_properties, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

FAULTS = int(os.environ.get("OTTLA_CHAOS_FAULTS", "6"))
SEED = int(os.environ.get("OTTLA_CHAOS_SEED", "17"))
JSON = "org.apache.kafka.connect.json.JsonConverter"
ACCOUNTS = "SELECT id, balance, version FROM {} ORDER BY id"
#: A sink's batch ends with a source's transaction unless something else ends it.
WHOLE = {
    "consumer.isolation.level": "read_committed",
    "consumer.max.poll.records": "10000000",
    "consumer.max.partition.fetch.bytes": str(64 << 20),
    "consumer.fetch.max.bytes": str(64 << 20),
}


@pytest.fixture
def database() -> Iterator[PostgresDatabase]:
    with PostgresServer() as server:
        found = PostgresDatabase(server)
        found.run(
            TABLE,
            "ALTER TABLE accounts REPLICA IDENTITY FULL",
            insert_all(),
            "CREATE TABLE events (id SERIAL PRIMARY KEY, note TEXT)",
        )
        yield found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", ["--set", "group.min.session.timeout.ms=1000"]) as broker:
        yield broker


class Auditor:
    """Checks the copy repeatedly, from outside, so it sees only committed states."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._stopping = threading.Event()
        self.looks = 0
        self.wrong: list[Any] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            with contextlib.suppress(psycopg.Error):
                [(total, rows)] = self._database.run("SELECT sum(balance), count(*) FROM copied")
                self.looks += rows > 0
                if rows and total != TOTAL:
                    self.wrong.append(total)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Bustle:
    """The load during the faults: transfers, rows of the table `events`, lines of a file."""

    def __init__(self, database: PostgresDatabase, lines: Path) -> None:
        self._database = database
        self._lines = lines
        self.written: list[str] = []
        self._bank = Bank(database, SEED, psycopg.Error)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._again_and_again, args=(work, pause))
            for work, pause in ((self._transfer, 0.01), (self._insert, 0.1), (self._append, 0.05))
        ]
        for each in self._threads:
            each.start()

    def _again_and_again(self, work: Callable[[], None], pause: float) -> None:
        while not self._stopping.wait(pause):
            work()

    def _transfer(self) -> None:
        self._bank.work(1)

    def _insert(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._database.run("INSERT INTO events (note) SELECT 'x' FROM generate_series(1, 5)")

    def _append(self) -> None:
        new = [f"line {len(self.written) + number}" for number in range(5)]
        with self._lines.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        self.written.extend(new)

    def stop(self) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join()
        self._bank.close()


class Pipelines:
    """Workers with the five connectors, and an operator who restarts failed ones."""

    def __init__(self, directory: Path, properties: dict[str, str], engine: str) -> None:
        self._directory, self._properties, self._engine = directory, properties, engine
        self.worker = self._start()
        self.restarts: list[str] = []

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(self._directory, self._properties, self._engine)
        try:
            worker.wait_until_ready()
        except BaseException:
            worker.terminate()
            raise
        return worker

    def create(self, config: dict[str, str]) -> None:
        def created() -> bool:
            return call(self.worker.url, "PUT", f"/connectors/{config['name']}/config", config).status in (
                200,
                201,
            )

        wait_for(created, f"{config['name']} cannot be created", 120)

    def replace(self) -> None:
        self.worker.kill_with_everything()
        self.worker = self._start()

    def restart_all(self) -> None:
        for name in statuses([self.worker]):
            call(self.worker.url, "POST", f"/connectors/{name}/restart?includeTasks=true")

    def restart_failed(self) -> None:
        for what, why in failures(statuses([self.worker])).items():
            name = what.partition(" ")[0]
            answer = call(
                self.worker.url, "POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true"
            )
            if answer.status == 202:
                self.restarts.append(f"{what}: {why}")


def executors(pids: list[int]) -> list[int]:
    """Return the executors, which are children of the Spark workers."""
    parents = ",".join(map(str, pids))
    found = subprocess.run(["pgrep", "-P", parents], capture_output=True, text=True, check=False).stdout
    return [int(each) for each in found.split()]


@pytest.mark.parametrize("engine", ["threads", pytest.param("spark", marks=pytest.mark.spark)])
def test_the_copies_of_a_bank_through_faults(
    database: PostgresDatabase, broker: BrokerProcess, tmp_path: Path, engine: str
) -> None:
    client = Settings(parse_servers(broker.bootstrap_servers))
    with contextlib.closing(Cluster(client)) as cluster:
        for topic in (TOPIC, "rows-events", "lines"):
            create_topic(cluster, topic, partitions=1)
    lines = tmp_path / "lines"
    lines.touch()
    given = {
        **distributed_properties(broker.bootstrap_servers, "bank"),
        **WHOLE,
        "key.converter": JSON,
        "value.converter": JSON,
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "3000",
        "offset.flush.interval.ms": "1000",
    }
    chance = random.Random(SEED)
    with contextlib.ExitStack() as stack:
        kinds: dict[str, Callable[[], object]] = {}
        if engine == "spark":
            from ottla.spark.standalone import StandaloneCluster

            (tmp_path / "spark").mkdir()
            spark = StandaloneCluster(workers=1, cores=16, memory="3g", directory=tmp_path / "spark")
            stack.callback(spark.stop)
            spark.start(240)
            given |= {
                "spark.master": spark.url,
                "spark.driver.host": "127.0.0.1",
                "spark.driver.memory": "512m",
                "spark.executor.memory": "512m",
                "spark.cores.max": "8",
            }
            kinds["executors"] = lambda: [
                os.kill(each, signal.SIGKILL) for each in executors(spark.worker_pids)
            ]
        pipelines = Pipelines(tmp_path, given, engine)
        stack.callback(lambda: pipelines.worker.terminate())

        def restart_broker() -> None:
            broker.kill()
            broker.start()

        kinds |= {
            "worker": pipelines.replace,
            "broker": restart_broker,
            "database": database.server.restart,
            "tasks": pipelines.restart_all,
        }
        texts = {"key.converter": STRING, "value.converter": STRING}
        for config in (
            capturing(database),
            copying(database),
            into_delta(tmp_path),
            reading_rows(database),
            {"name": "lines", "connector.class": SOURCE, "file": str(lines), "topic": "lines", **texts},
        ):
            pipelines.create(config)
        auditor = Auditor(database)
        stack.callback(auditor.stop)
        bustle = Bustle(database, lines)
        stack.callback(bustle.stop)

        def goes_on(topic: str, beyond: int) -> Callable[[], bool]:
            def has_more() -> bool:
                pipelines.restart_failed()
                return stable_end(client, topic) > beyond

            return has_more

        faults = [*kinds, *chance.choices(list(kinds), k=max(0, FAULTS - len(kinds)))][:FAULTS]
        chance.shuffle(faults)
        for number, fault in enumerate(faults, 1):
            for topic in (TOPIC, "rows-events", "lines"):
                wait_for(goes_on(topic, stable_end(client, topic)), f"nothing new in {topic}", 180)
            began = time.monotonic()
            kinds[fault]()
            print(f"fault {number}, {fault}: {time.monotonic() - began:.1f} s", flush=True)
            assert not auditor.wrong
        bustle.stop()

        expected = database.run(ACCOUNTS.format("accounts"))
        assert sum(balance for _, balance, _ in expected) == TOTAL

        def settled(is_so: Callable[[], bool]) -> Callable[[], bool]:
            def check() -> bool:
                pipelines.restart_failed()
                return is_so()

            return check

        wait_for(
            settled(lambda: database.run(ACCOUNTS.format("copied")) == expected), "the copy is behind", 240
        )
        wait_for(settled(lambda: lake_rows(tmp_path) == expected), "the lake is behind", 240)
        rows = [number for (number,) in database.run("SELECT id FROM events ORDER BY id")]
        wait_for(
            settled(lambda: len(committed_records(client, "rows-events")) >= len(rows)),
            "rows are missing",
            240,
        )
        wait_for(
            settled(lambda: len(committed_records(client, "lines")) >= len(bustle.written)),
            "lines are missing",
            240,
        )
        auditor.stop()
    found = [
        json.loads(each.value or b"")["payload"]["id"] for each in committed_records(client, "rows-events")
    ]
    assert found == rows
    assert [(each.value or b"").decode() for each in committed_records(client, "lines")] == bustle.written
    assert replay(client) == {row[0]: tuple(row[1:]) for row in expected}
    versions = check_every_version(tmp_path)
    assert not auditor.wrong
    print(
        f"{len(faults)} faults. The copy was right at all {auditor.looks} looks, the lake in all {versions} versions; "
        f"{len(rows)} rows and {len(bustle.written)} lines came once. An operator restarted {len(pipelines.restarts)} "
        f"times: {sorted(set(pipelines.restarts))}"
    )


def stable_end(client: Settings, topic: str) -> int:
    """Return the last stable offset, or 0 while no broker responds."""
    with contextlib.closing(Cluster(client)) as cluster:
        try:
            partition = TopicPartition(topic, 0)
            return list_offsets(cluster, {partition: LATEST}, READ_COMMITTED)[partition].offset
        except ClientError:
            return 0


def replay(client: Settings) -> dict[int, tuple[int, int]]:
    """Add up the captured changes. A lost or repeated change would break the sequence of versions."""
    accounts: dict[int, tuple[int, int]] = {}
    for number, record in enumerate(committed_records(client, TOPIC)):
        if record.value is None:
            continue
        change = json.loads(record.value)["payload"]
        key = json.loads(record.key or b"")["payload"]["id"]
        if change["op"] == "d":
            del accounts[key]
            continue
        row = change["after"]
        if change["op"] == "u":
            assert row["version"] == accounts[key][1] + 1, f"record {number}: {row} after {accounts[key]}"
        else:
            assert key not in accounts, f"record {number} brings account {key} again"
        accounts[key] = row["balance"], row["version"]
    return accounts


def lake_rows(directory: Path, version: int | None = None) -> list[tuple[int, int, int]]:
    if not DeltaTable.is_deltatable(str(directory / "delta")):
        return []
    found = DeltaTable(str(directory / "delta"), version=version).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["balance"], row["version"]) for row in found)


def check_every_version(directory: Path) -> int:
    last = DeltaTable(str(directory / "delta")).version()
    for version in range(last + 1):
        rows = lake_rows(directory, version)
        assert len({row[0] for row in rows}) == len(rows), f"version {version} has a row twice"
        assert not rows or sum(row[1] for row in rows) == TOTAL, f"version {version}"
    return last + 1
