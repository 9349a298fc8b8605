"""Promise: one of three workers is killed every 20 s, and soon all connectors and tasks run again. With read_committed,
the sources' topics hold every record once and in order; no sink misses a record; no task ever runs twice.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.client.settings import Settings, parse_servers
from tests.broker_process import BrokerProcess
from tests.connect.chaos.exclusive import DIRECTORY
from tests.connect.chaos.locks import violations
from tests.connect.chaos.worker_processes import WorkerProcess, failures, runs, statuses
from tests.connect.runtime.conftest import committed_records
from tests.connect.worker.workers import call, distributed_properties, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

SECONDS = float(os.environ.get("OTTLA_CHAOS_SECONDS", "60"))
EVERY = float(os.environ.get("OTTLA_CHAOS_EVERY", "20"))
CONNECTORS = int(os.environ.get("OTTLA_CHAOS_CONNECTORS", "8"))
#: Fail if recovery takes longer than this many seconds. Off by default, because machines differ.
WITHIN = float(os.environ.get("OTTLA_CHAOS_WITHIN", "0"))
SEED = int(os.environ.get("OTTLA_CHAOS_SEED", "17"))
_HERE = "tests.connect.chaos.exclusive"


class Connectors:
    """Ten connectors: five file sources, three sinks that copy their topics, two generators with two tasks each."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self.configs: dict[str, dict[str, str]] = {}
        self.lines: dict[str, list[str]] = {}
        self.copies: dict[str, list[str]] = {}
        self.generated: list[str] = []
        for number in range(count):
            {"s": self._source, "k": self._sink, "g": self._generating}["sksgskssgk"[number % 10]](number)

    def _source(self, number: int) -> None:
        topic = f"lines-{number}"
        self.lines[topic] = []
        file = self._directory / topic
        file.touch()
        self._add(f"source-{number}", "FileSource", file=str(file), topic=topic)

    def _sink(self, number: int) -> None:
        """Copy the topics of all earlier file sources, so that several tasks share each topic."""
        topics = list(self.lines)[-2:]
        self.copies[f"copy-{number}"] = topics
        file = str(self._directory / f"copy-{number}")
        self._add(f"sink-{number}", "FileSink", file=file, topics=",".join(topics))

    def _generating(self, number: int) -> None:
        topic = f"generated-{number}"
        self.generated.append(topic)
        # Each record is its own transaction; many more would keep two cores busy.
        self._add(
            f"generating-{number}",
            "Generating",
            **{"kafka.topic": topic, "quickstart": "users", "max.interval": "100", "tasks.max": "2"},
            **{"value.converter": "org.apache.kafka.connect.json.JsonConverter"},
        )

    def _add(self, name: str, kind: str, **settings: str) -> None:
        config = {"connector.class": f"{_HERE}.{kind}", DIRECTORY: str(self._directory), **settings}
        self.configs[name] = config

    def tasks(self, name: str) -> int:
        return int(self.configs[name].get("tasks.max", "1"))

    def grow(self) -> None:
        """Append a few lines to every source file."""
        for topic, written in self.lines.items():
            new = [f"{topic} line {len(written) + number}" for number in range(5)]
            with (self._directory / topic).open("a") as file:
                file.writelines(f"{line}\n" for line in new)
            written.extend(new)


class Recovery(NamedTuple):
    """Seconds from the kill until every connector is on a live worker, and until all tasks run."""

    assigned: float
    running: float


class Chaos:
    def __init__(
        self, directory: Path, properties: Mapping[str, str], engine: str, connectors: Connectors
    ) -> None:
        self._directory = directory
        self._properties = properties
        self._engine = engine
        self._connectors = connectors
        self._chance = random.Random(SEED)
        self.workers: list[WorkerProcess] = []
        self._all: list[WorkerProcess] = []

    def start_worker(self) -> WorkerProcess:
        worker = WorkerProcess(self._directory, self._properties, self._engine)
        self.workers.append(worker)
        self._all.append(worker)
        return worker

    def create(self) -> None:
        def created(name: str, config: Mapping[str, str]) -> bool:
            answer = call(self.workers[0].url, "PUT", f"/connectors/{name}/config", config)
            assert answer.status in (200, 201, 409, 500), answer
            return answer.status in (200, 201)

        for name, config in self._connectors.configs.items():
            wait_for(lambda name=name, config=config: created(name, config), f"{name} cannot be created")

    def seen(self) -> dict[str, Any]:
        """Return the status from the oldest running worker."""
        return statuses(self.workers)

    def all_assigned(self) -> bool:
        alive = {each.id for each in self.workers}
        found = self.seen()
        return set(found) == set(self._connectors.configs) and all(
            each["connector"]["worker_id"] in alive for each in found.values()
        )

    def all_run(self) -> bool:
        alive = {each.id for each in self.workers}
        found = self.seen()
        failed = failures(found)
        assert not failed, failed
        return set(found) == set(self._connectors.configs) and all(
            runs(each, alive, self._connectors.tasks(name)) for name, each in found.items()
        )

    def kill_one(self) -> Recovery:
        # One worker must remain to take over, or the test would measure only the start of a worker.
        wait_for(lambda: sum(each.is_ready for each in self.workers) >= 2, "workers do not start", 240)
        self.workers.sort(key=lambda each: not each.is_ready)
        ready = sum(each.is_ready for each in self.workers)
        victim = self.workers.pop(self._chance.randrange(ready))
        began = time.monotonic()
        self._chance.choice([victim.kill, victim.kill_with_everything])()
        wait_for(self.all_assigned, "not all of them were taken over", 120)
        assigned = time.monotonic() - began
        wait_for(self.all_run, "not all of them run again", 120)
        return Recovery(assigned, time.monotonic() - began)

    def close(self) -> None:
        for each in self.workers:
            each.terminate()
        for each in self._all:
            each.kill_with_everything()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", ["--set", "group.min.session.timeout.ms=1000"]) as broker:
        yield broker


@pytest.mark.parametrize("engine", ["threads", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_worker_is_killed_again_and_again(broker: BrokerProcess, tmp_path: Path, engine: str) -> None:
    connectors = Connectors(tmp_path, CONNECTORS)
    given = {
        **distributed_properties(broker.bootstrap_servers, "killed"),
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "500",
        "consumer.isolation.level": "read_committed",
        "spark.driver.memory": "512m",
    }
    chaos = Chaos(tmp_path, given, engine, connectors)
    finished = threading.Event()

    def grow() -> None:
        while not finished.wait(0.1):
            connectors.grow()

    grower = threading.Thread(target=grow)
    with contextlib.ExitStack() as stack:
        stack.callback(chaos.close)
        for _ in range(3):
            chaos.start_worker()
        for worker in chaos.workers:
            worker.wait_until_ready()
        chaos.create()
        wait_for(chaos.all_run, "not all of them run", 240)
        grower.start()
        stack.callback(grower.join)
        stack.callback(finished.set)
        recoveries = []
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            due = time.monotonic() + EVERY
            recoveries.append(chaos.kill_one())
            chaos.start_worker()
            print(f"kill {len(recoveries)}: {recoveries[-1]}", flush=True)
            assert violations(tmp_path) == ""
            finished.wait(max(0.0, due - time.monotonic()))
        finished.set()
        grower.join()
        check_records(broker, tmp_path, connectors)
    assert violations(tmp_path) == ""
    worst = max(each.running for each in recoveries)
    print(
        f"{len(recoveries)} kills: everything ran again after at most {worst:.1f} s, and had been taken over after at "
        f"most {max(each.assigned for each in recoveries):.1f} s."
    )
    assert not WITHIN or worst <= WITHIN


def check_records(broker: BrokerProcess, directory: Path, connectors: Connectors) -> None:
    client = Settings(parse_servers(broker.bootstrap_servers))

    def values(topic: str) -> list[str]:
        return [(each.value or b"").decode() for each in committed_records(client, topic)]

    for topic, expected in connectors.lines.items():
        wait_for(lambda t=topic, e=expected: len(values(t)) >= len(e), f"{topic} misses lines", 120)
        assert values(topic) == expected
    for name, topics in connectors.copies.items():
        expected_lines = {line for topic in topics for line in connectors.lines[topic]}
        copy = directory / name
        wait_for(
            lambda c=copy, e=expected_lines: e <= set(c.read_text().splitlines()), f"{name} misses lines", 120
        )
        assert set(copy.read_text().splitlines()) == expected_lines
    for topic in connectors.generated:
        by_task: dict[bytes, list[int]] = {}
        for record in committed_records(client, topic):
            headers = {each["key"]: bytes(each["value"]) for each in record.headers or ()}
            by_task.setdefault(headers["task.id"], []).append(int(headers["current.iteration"]))
        assert len(by_task) == 2
        for numbers in by_task.values():
            assert numbers == list(range(len(numbers)))
