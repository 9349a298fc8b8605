"""Promise: when workers are killed again and again, all connectors run again soon, and none ever runs twice."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.lifeline import start_child
from ottla.testing import Broker
from tests.spark.connect.worker.recording_engine import violations
from tests.spark.connect.worker.workers import call, distributed_properties, wait_for

CONNECTORS = 20
SECONDS = 60


class Process:
    _numbers = itertools.count()

    def __init__(self, directory: Path, properties: dict[str, str]) -> None:
        self._file = directory / f"worker-{next(self._numbers)}.json"
        self._file.write_text(json.dumps(properties))
        self.log = self._file.with_suffix(".log")
        module = "tests.spark.connect.worker.worker_process"
        with self.log.open("wb") as log:
            self.process: subprocess.Popen[bytes] = start_child(
                [sys.executable, "-m", module, str(self._file)], log
            )

    @property
    def url(self) -> str:
        file = self._file.with_suffix(".url")
        wait_for(file.exists, f"it did not start: {self.log.read_text()[-2000:]}")
        return str(wait_for(file.read_text))

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(60)


def running(url: str, alive: set[str]) -> set[str]:
    """The connectors that run on a worker that is alive, as this one sees it."""
    try:
        found = call(url, "GET", "/connectors?expand=status").body
    except OSError:
        return set()
    return {
        name
        for name, each in found.items()
        if each["status"]["connector"]["state"] == "RUNNING"
        and each["status"]["connector"]["worker_id"] in alive
    }


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_workers_are_killed_again_and_again(broker: Broker, tmp_path: Path) -> None:
    chance = random.Random(17)
    given = {
        **distributed_properties(broker.bootstrap_servers, "killed"),
        "spark.test.directory": str(tmp_path),
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    with contextlib.ExitStack() as stack:

        def start() -> Process:
            started = Process(tmp_path, given)
            stack.callback(started.process.kill)
            return started

        workers = [start() for _ in range(3)]
        names = {f"c{number}" for number in range(CONNECTORS)}
        config = {"connector.class": "FileStreamSource", "topic": "t"}

        def created(name: str) -> bool:
            return call(workers[0].url, "PUT", f"/connectors/{name}/config", config).status in (200, 201)

        for name in sorted(names):
            wait_for(lambda name=name: created(name))  # type: ignore[misc]

        def all_run() -> bool:
            alive = {each.url.removeprefix("http://") for each in workers}
            return running(workers[0].url, alive) == names

        wait_for(all_run, "not all of them run")
        longest = 0.0
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            victim = workers.pop(chance.randrange(3))
            victim.end(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            began = time.monotonic()
            wait_for(all_run, "not all of them run again")
            longest = max(longest, time.monotonic() - began)
            workers.append(start())
            wait_for(all_run, "not all of them run with a worker more")
            assert violations(tmp_path) == ""
        print(f"All connectors ran again after at most {longest:.1f} s.")
        for worker in workers:
            worker.end(signal.SIGTERM)
    assert violations(tmp_path) == ""
