"""Every fault against every kind of connector: a source and a sink, in Python and in Java.

A table flows through change data capture and the JDBC sink into another table, and a file through Kafka's Java source
and sink into another file. Each test strikes once while both flow, and ends with the same question: did every row and
every line arrive, and does the status say so?
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("jpype", reason="Plugins in Java need JPype")
pytest.importorskip("psycopg")

from bench.peers.apache_kafka import Unavailable, application_classpath
from ottla.client.settings import Settings, parse_servers
from ottla.spark.standalone import StandaloneCluster
from tests.broker_process import BrokerProcess
from tests.connect.chaos.worker_processes import WorkerProcess, failures, runs, statuses
from tests.connect.connectors.postgres import PostgresDatabase, PostgresServer
from tests.connect.runtime.conftest import committed_records
from tests.connect.worker.workers import call, distributed_properties, wait_for

pytestmark = [pytest.mark.peers, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_AT_ONCE = 20
#: Promise: 10 s on a quiet machine. Busy machines need more.
_END_SECONDS = 30.0
_RECOVERY_SECONDS = 240.0
_ROWS, _LINES = ("source", "sink"), ("java-source", "java-sink")


class World:
    """All servers, one worker at a time, and the four connectors."""

    def __init__(self, folder: Path, libs: Path, database: PostgresDatabase, broker: BrokerProcess) -> None:
        self.folder = folder
        self.database = database
        self.broker = broker
        (folder / "spark").mkdir()
        self.spark = StandaloneCluster(workers=2, cores=8, memory="3g", directory=folder / "spark")
        plugins = folder / "plugins"
        plugins.mkdir()
        for jar in libs.glob("connect-file-*.jar"):
            shutil.copy(jar, plugins)
        self._properties = distributed_properties(broker.bootstrap_servers, "matrix") | {
            "plugin.path": str(plugins),
            "kafka.libs.path": str(libs),
            "spark.master": self.spark.url,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.cores.max": "8",
            "session.timeout.ms": "6000",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        self.lines, self.copy = folder / "lines", folder / "copy"
        self.lines.touch()
        self.rows_written = self.lines_written = 0
        self._workers: list[WorkerProcess] = []

    @property
    def worker(self) -> WorkerProcess:
        return self._workers[-1]

    def start_worker(self) -> WorkerProcess:
        self._workers.append(WorkerProcess(self.folder, self._properties))
        self.worker.wait_until_ready()
        return self.worker

    def create(self) -> None:
        self.database.run("CREATE TABLE events (id INT PRIMARY KEY, note TEXT)")
        java = "java:org.apache.kafka.connect.file.FileStream"
        schemas = {"key.converter": _JSON, "value.converter": _JSON}
        configs = {
            "source": {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                **self.database.capture,
                "table.include.list": "public.events",
                "poll.interval.ms": "100",
                **schemas,
            },
            "sink": {
                "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
                **self.database.jdbc,
                "topics": "bank.public.events",
                "table.name.format": "copied",
                "auto.create": "true",
                "insert.mode": "upsert",
                "pk.mode": "record_key",
                "transforms": "unwrap",
                "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
                **schemas,
            },
            "java-source": {
                "connector.class": f"{java}SourceConnector",
                "file": str(self.lines),
                "topic": "lines",
            },
            "java-sink": {
                "connector.class": f"{java}SinkConnector",
                "file": str(self.copy),
                "topics": "lines",
            },
        }
        for name, config in configs.items():
            answer = call(self.worker.url, "PUT", f"/connectors/{name}/config", {"name": name, **config})
            assert answer.status == 201, answer.body

    def write_rows(self) -> None:
        self.database.run(
            f"INSERT INTO events SELECT n, 'x' FROM generate_series({self.rows_written}, "
            f"{self.rows_written + _AT_ONCE - 1}) AS n"
        )
        self.rows_written += _AT_ONCE

    def write_lines(self) -> None:
        with self.lines.open("a") as file:
            file.writelines(f"{self.lines_written + number}\n" for number in range(_AT_ONCE))
        self.lines_written += _AT_ONCE

    def status(self) -> dict[str, Any]:
        with contextlib.suppress(OSError):
            return statuses([self.worker])
        return {}

    def tasks(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        found = self.status()
        return [task for name in names if name in found for task in found[name]["tasks"]]

    # What has to be true in the end

    def rows_arrived(self) -> bool:
        with contextlib.suppress(Exception):
            return self.database.run("SELECT count(*) FROM copied") == [(self.rows_written,)]
        return False

    def lines_arrived(self) -> bool:
        return self.copy.exists() and len(set(self.copy.read_text().split())) == self.lines_written

    def wait_for_all(self) -> None:
        def settled() -> bool:
            found = self.status()
            running = [runs(each, {self.worker.id}) for each in found.values()]
            return running == [True] * 4 and self.rows_arrived() and self.lines_arrived()

        def shown() -> str:
            return f"{failures(self.status())} {self.status()}"

        try:
            wait_for(settled, "not all arrived", _RECOVERY_SECONDS)
        except AssertionError:
            raise AssertionError(f"not all arrived and ran: {shown()}") from None
        # Sources are exactly once, Java sinks at least once.
        client = Settings(parse_servers(self.broker.bootstrap_servers))
        sent = [int(each.value or b"") for each in committed_records(client, "lines")]
        assert sent == list(range(self.lines_written))
        changes = committed_records(client, "bank.public.events")
        assert len(changes) == self.rows_written

    def end_worker(self) -> float:
        before = time.monotonic()
        self.worker.process.terminate()
        self.worker.process.wait(_END_SECONDS)
        return time.monotonic() - before

    def close(self) -> None:
        for each in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.process.pid, signal.SIGCONT)
            each.terminate()
        self.spark.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    try:
        libs = Path(application_classpath().removesuffix("/*"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("matrix")
    broker = BrokerProcess(folder / "data", ["--set", "group.min.session.timeout.ms=1000"])
    with PostgresServer() as server, broker:
        found = World(folder, libs, PostgresDatabase(server), broker)
        try:
            found.spark.start(240)
            found.start_worker()
            found.create()
            yield found
        finally:
            found.close()


@pytest.fixture
def flowing(world: World) -> World:
    """Everything runs and has arrived, and more is on its way."""
    if world.worker.process.poll() is not None:
        world.start_worker()
    write_both(world)
    world.wait_for_all()
    write_both(world)
    return world


def write_both(world: World) -> None:
    world.write_rows()
    world.write_lines()


def seen_while(world: World, names: tuple[str, ...], wanted: Callable[[dict[str, Any]], bool]) -> None:
    wait_for(
        lambda: any(map(wanted, world.tasks(names))), f"the status does not say so: {world.status()}", 120
    )


def test_worker_terminated(flowing: World) -> None:
    flowing.end_worker()
    write_both(flowing)
    flowing.start_worker()
    flowing.wait_for_all()


def test_worker_killed(flowing: World) -> None:
    flowing.worker.kill()
    write_both(flowing)
    flowing.start_worker()
    flowing.wait_for_all()


def test_worker_stopped_and_continued(flowing: World) -> None:
    """The worker that took over keeps the connectors, and the other one does not double their records."""
    frozen = flowing.worker
    os.kill(frozen.process.pid, signal.SIGSTOP)
    write_both(flowing)
    flowing.start_worker()
    flowing.wait_for_all()
    os.kill(frozen.process.pid, signal.SIGCONT)
    write_both(flowing)

    def runs_somewhere() -> bool:
        both = {frozen.id, flowing.worker.id}
        return [runs(each, both) for each in flowing.status().values()] == [True] * 4

    wait_for(lambda: runs_somewhere() and flowing.rows_arrived() and flowing.lines_arrived(), "", 240)
    frozen.process.terminate()
    frozen.process.wait(_END_SECONDS)
    flowing.wait_for_all()


def test_spark_master_down(flowing: World) -> None:
    """The tasks go on without the master, and the worker ends when asked to."""
    os.kill(flowing.spark.master_pid, signal.SIGKILL)
    write_both(flowing)
    flowing.wait_for_all()
    flowing.end_worker()
    flowing.spark.start_master()
    flowing.spark.wait_for_workers(180)
    write_both(flowing)
    flowing.start_worker()
    flowing.wait_for_all()


def test_executors_lost(flowing: World) -> None:
    for worker in flowing.spark.worker_pids:
        found = subprocess.run(["pgrep", "-P", str(worker)], capture_output=True, text=True, check=False)
        for each in found.stdout.split():
            os.kill(int(each), signal.SIGKILL)
    for name in (*_ROWS, *_LINES):
        seen_while(flowing, (name,), lambda task: task["state"] == "UNASSIGNED" and bool(task.get("trace")))
    write_both(flowing)
    flowing.wait_for_all()


def test_database_down(flowing: World) -> None:
    """Connectors of the database wait and say for what; the others go on."""
    flowing.wait_for_all()
    flowing.database.server.kill()
    flowing.write_lines()
    seen_while(
        flowing,
        ("source",),
        lambda task: task["state"] == "RUNNING" and "PostgreSQL" in task.get("trace", ""),
    )
    wait_for(flowing.lines_arrived, "files do not flow without the database", 120)
    assert all(task["state"] == "RUNNING" and not task.get("trace") for task in flowing.tasks(_LINES))
    flowing.database.server.start()
    flowing.write_rows()
    flowing.wait_for_all()


def test_broker_down(flowing: World) -> None:
    flowing.broker.kill()
    write_both(flowing)
    # First the tasks wait and say for what. After the session timeout the worker gives them up.
    for name in (*_ROWS, *_LINES):
        seen_while(flowing, (name,), lambda task: task["state"] != "RUNNING" or bool(task.get("trace")))
    flowing.broker.start()
    flowing.wait_for_all()


def test_worker_terminated_while_the_broker_is_down(flowing: World) -> None:
    flowing.broker.kill()
    write_both(flowing)
    flowing.end_worker()
    flowing.broker.start()
    flowing.start_worker()
    flowing.wait_for_all()


def test_worker_terminated_while_the_database_is_down(flowing: World) -> None:
    flowing.database.server.kill()
    flowing.end_worker()
    flowing.database.server.start()
    write_both(flowing)
    flowing.start_worker()
    flowing.wait_for_all()
