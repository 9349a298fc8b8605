"""Promise: with drivers, executors and brokers killed at random, each result is in its topic once.

One driver runs three pipelines on its own executors: one without state, one with windows, one that joins two streams.
OTTLA_CHAOS_SEED repeats the kills of a run. OTTLA_CHAOS_MASTER=local[2] runs without executors, and kills Python
workers in their place.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.spark.consuming import consume
from tests.spark.driver_process import DriverProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

PIPELINES = ("stateless", "windowed", "joined")
KILLS = ["driver"] * 4 + ["executor"] * 8 + ["broker"] * 8
#: Events per kill.
EVENTS = 30
START = 1_700_000_000
LATER = START + 10 * 24 * 3600
USERS = ("ann", "bob", "cid")


class Input:
    """Writes events and their answers, and computes the expected results."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self.events: list[tuple[int, str, int]] = []
        self._ends = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            number = len(self.events)
            event = (number, random.choice(USERS), START + number // 3)
            self.events.append(event)
            self._send("events", *event)
            self._send("answers", number, USERS[number % 3], event[2] + 60)
        assert self._producer.flush(120) == 0

    def end(self) -> None:
        """Write an event of a later day, which closes all windows."""
        for topic in ("events", "answers"):
            for partition in range(2):
                self._send(topic, -1, "nobody", LATER, partition)
        assert self._producer.flush(120) == 0

    def _send(self, topic: str, number: int, user: str, at: int, partition: int | None = None) -> None:
        value = f"{number},{user},{at}"
        self._producer.produce(
            topic, value, key=str(number), partition=number % 2 if partition is None else partition
        )

    def expected(self) -> dict[str, Counter[str]]:
        windows = Counter((user, at // 10 * 10) for _, user, at in self.events)
        return {
            "stateless": Counter(f"{number},{user.upper()},{at}" for number, user, at in self.events)
            + Counter({f"-1,NOBODY,{LATER}": 2}),
            "windowed": Counter(f"{user} {start} {count}" for (user, start), count in windows.items()),
            "joined": Counter(f"{number} {user} {USERS[number % 3]}" for number, user, _ in self.events)
            + Counter({"-1 nobody nobody": 4}),
        }


def found(servers: str) -> dict[str, Counter[str]]:
    return {
        topic: Counter(message.value().decode() for message in consume(servers, topic, 2))
        for topic in PIPELINES
    }


def processes_below(root: int, words: str) -> list[int]:
    """Return the descendants whose command line contains these words."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")

    def ancestors(pid: int) -> Iterator[int]:
        while pid in parents:
            pid = parents[pid]
            yield pid

    return [pid for pid in parents if words in commands.get(pid, "") and root in ancestors(pid)]


class Cluster:
    """The broker and the driver, which restarts whenever it ends."""

    def __init__(
        self, directory: Path, broker: BrokerProcess, options: dict[str, str], *pipelines: str
    ) -> None:
        self._directory = directory
        self._pipelines = pipelines
        self.broker = broker
        self._options = {
            "master": os.environ.get("OTTLA_CHAOS_MASTER", "local-cluster[2,1,1024]"),
            "servers": self.broker.bootstrap_servers,
            "checkpoint": str(directory / "checkpoint"),
            "interval": "500 milliseconds",
            **options,
        }
        self.driver: DriverProcess | None = None
        self.starts = 0

    def tend(self) -> DriverProcess:
        if self.driver is None or not self.driver.is_running:
            self.driver = DriverProcess(self._directory, self._options, *self._pipelines)
            self.starts += 1
        return self.driver

    def kill(self, what: str) -> None:
        driver = self.tend()
        if what == "broker":
            self.broker.kill()
            time.sleep(random.random())
            self.broker.start(60)
        elif what == "driver":
            driver.kill()
        else:
            for words in random.sample(["CoarseGrainedExecutorBackend", "pyspark.daemon"], 2):
                victims = processes_below(driver.pids[0], words) if driver.pids else []
                if victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(random.choice(victims), signal.SIGKILL)
                    return

    def close(self) -> None:
        if self.driver is not None:
            self.driver.kill()
        if self.broker.is_running:
            self.broker.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    broker = BrokerProcess(tmp_path / "broker", ["--set", "transaction.state.log.num.partitions=4"])
    broker.start()
    made = Cluster(tmp_path, broker, {}, *PIPELINES)
    yield made
    made.close()


def wait(cluster: Cluster, condition: Callable[[], bool], seconds: float) -> bool:
    """Return True if the condition holds in time, keeping the driver running."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        cluster.tend()
        time.sleep(0.3)
    return True


def test_every_result_once_although_everything_is_killed(cluster: Cluster) -> None:
    seed = int(os.environ.get("OTTLA_CHAOS_SEED", time.time()))
    print(f"OTTLA_CHAOS_SEED={seed}")
    random.seed(seed)
    servers = cluster.broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, 2, 1) for name in ("events", "answers", *PIPELINES)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    written = Input(servers)
    written.write(EVENTS)
    kills = random.sample(KILLS, len(KILLS))
    for what in kills:
        before = sum(found(servers)["stateless"].values())
        written.write(EVENTS)
        # Progress since the last kill is required; otherwise the kills would hit only starts.
        assert wait(cluster, lambda before=before: sum(found(servers)["stateless"].values()) > before, 600)  # type: ignore[misc]
        written.write(EVENTS)
        time.sleep(random.random() * 2)
        cluster.kill(what)
        print(f"killed: {what}, after {before} rows", flush=True)
    written.end()
    expected = written.expected()
    settled = wait(cluster, lambda: found(servers) == expected, 400)
    result = found(servers)
    for topic in PIPELINES:
        assert (topic, result[topic] - expected[topic]) == (topic, Counter())
        assert (topic, expected[topic] - result[topic]) == (topic, Counter())
    assert settled
    print(f"{len(kills)} kills, {cluster.starts} drivers, {len(written.events)} events")
