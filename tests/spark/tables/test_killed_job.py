"""Promise: wherever the table job dies, the table has every record once, and union reads equal the topic throughout."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from ottla.testing import Broker
from tests.spark.tables.conftest import FORMATS, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3000)]


@pytest.fixture(scope="module")
def reader() -> Iterator[SparkSession]:
    """A session without the time limit of tests with the shared one."""
    from ottla.spark import session

    found = session("tests", master="local[2]", config={"spark.driver.memory": "1g"})
    yield found
    found.stop()


KILLS = int(os.environ.get("OTTLA_TABLE_KILLS", "5"))
SEED = int(os.environ.get("OTTLA_TABLE_SEED", "1"))


class JobProcess:
    """`ottla tables run` in a process group of its own, so that its JVM and its workers die with it."""

    def __init__(self, broker: Broker, warehouse: Path, log: Path) -> None:
        command = [
            sys.executable, "-m", "ottla", "tables", "run", "-b", broker.bootstrap_servers,
            "--warehouse", str(warehouse), "--master", "local[2]",
        ]  # fmt: skip
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


class Feed:
    """Writes records until `stop`. Every hundredth is no JSON."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0
        self._thread.start()

    def _run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers})
        while not self._stopping.is_set():
            for _ in range(200):
                number = self.sent
                value = b"no" if number % 100 == 99 else b'{"n": %d}' % number
                producer.produce(self._topic, value, partition=number % 2)
                self.sent += 1
            producer.flush()
            self._stopping.wait(0.2)
        producer.flush()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.mark.parametrize("format", FORMATS)
def test_a_job_that_is_killed_writes_every_record_once(
    reader: SparkSession, fresh_ottla_broker: Broker, tmp_path: Path, format: str
) -> None:
    tables = Tables(reader, fresh_ottla_broker, tmp_path / "lake")
    topic = tables.topic("killed", partitions=2, format=format, mode="json", target_lag_ms="200")
    tables.put(topic, b'{"n": 0}')
    feed = Feed(fresh_ottla_broker, "killed")
    chance = random.Random(SEED)
    log = tmp_path / "job.log"
    looks = commits = 0
    try:
        for _ in range(KILLS):
            job = JobProcess(fresh_ottla_broker, tmp_path / "lake", log)
            try:
                before = committed(tables, topic)
                deadline = time.monotonic() + 240
                while committed(tables, topic) == before and time.monotonic() < deadline:
                    assert job.is_running, log.read_text()
                    time.sleep(0.5)
                assert committed(tables, topic) > before, log.read_text()
                time.sleep(chance.uniform(0, 3))
                looks += look(tables, topic)
                commits += 1
            finally:
                job.kill()
            looks += look(tables, topic)
    finally:
        feed.stop()
    tables.run(topic)
    assert tables.complaints == []
    places = Counter((row["__partition"], row["__offset"]) for row in tables.rows(topic))
    dead = Counter((row["__partition"], row["__offset"]) for row in tables.rows(topic, dead_letters=True))
    assert set((places + dead).values()) == {1}
    assert len(places) + len(dead) == feed.sent + 1
    assert all(is_bad(*place) for place in dead)
    assert looks == 2 * KILLS
    assert commits == KILLS


def committed(tables: Tables, topic: str) -> int:
    table = tables.table(topic)
    boundary = None if table is None else table.boundary()
    return 0 if boundary is None else sum(boundary.offsets.values())


def look(tables: Tables, topic: str) -> int:
    """Compare a union read with the topic: it has all records from before the read, each of them once."""
    ends = [len(tables.broker.records(topic, partition)) for partition in (0, 1)]
    found = tables.read(topic, columns=["__partition", "__offset"]).collect()
    counts = Counter((row["__partition"], row["__offset"]) for row in found)
    assert set(counts.values()) == {1}
    for partition, end in enumerate(ends):
        offsets = {offset for part, offset in counts if part == partition}
        wanted = {offset for offset in range(max(end, *offsets) + 1) if not is_bad(partition, offset)}
        assert offsets - wanted == set()
        assert {offset for offset in wanted if offset < end} - offsets == set()
    return 1


def is_bad(partition: int, offset: int) -> bool:
    """Return True for the places of the values that are no JSON."""
    return partition == 1 and offset % 50 == 49
