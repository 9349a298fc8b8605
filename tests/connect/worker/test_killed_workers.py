"""Promise: after repeated kills of workers all connectors soon run again, and none ever runs twice."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.connect.chaos.locks import violations
from tests.connect.chaos.worker_processes import WorkerProcess, runs, statuses
from tests.connect.worker.workers import call, distributed_properties, wait_for

CONNECTORS = 20
SECONDS = 60


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

        def start() -> WorkerProcess:
            started = WorkerProcess(tmp_path, given, "threads")
            stack.callback(started.terminate)
            started.wait_until_ready()
            return started

        workers = [start() for _ in range(3)]
        names = {f"c{number}" for number in range(CONNECTORS)}
        config = {"connector.class": "FileStreamSource", "topic": "t"}

        def created(name: str) -> bool:
            return call(workers[0].url, "PUT", f"/connectors/{name}/config", config).status in (200, 201)

        for name in sorted(names):
            wait_for(lambda name=name: created(name))  # type: ignore[misc]

        def all_run() -> bool:
            alive = {each.id for each in workers}
            return {name for name, each in statuses(workers).items() if runs(each, alive)} == names

        wait_for(all_run, "not all of them run")
        longest = 0.0
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            victim = workers.pop(chance.randrange(3))
            chance.choice([victim.kill, victim.kill, victim.terminate])()
            began = time.monotonic()
            wait_for(all_run, "not all of them run again")
            longest = max(longest, time.monotonic() - began)
            workers.append(start())
            wait_for(all_run, "not all of them run with a worker more")
            assert violations(tmp_path) == ""
        print(f"All connectors ran again after at most {longest:.1f} s.")
    assert violations(tmp_path) == ""
