"""Promise: on a cluster that loses executors, a pipeline gives the right results."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess

pytest.importorskip("pyspark")

from ottla.spark.standalone import ClusterError, StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

START = 1_700_000_000
TAGS = ["spark", "kafka", "prague"]


class Feed:
    """Produces events, and computes the expected results."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._chance = random.Random(5)
        self._sent = 0
        self.expected: Counter[str] = Counter()

    def send(self, count: int) -> None:
        for _ in range(count):
            at = datetime.fromtimestamp(START + self._sent // 5, UTC)
            tag = self._chance.choice(TAGS)
            self._produce(tag, at)
            self.expected[f"{tag} {at:%H:%M}"] += 1
        assert self._producer.flush(30) == 0

    def close_windows(self) -> None:
        self._produce("end", datetime.fromtimestamp(START + 86_400, UTC))
        assert self._producer.flush(30) == 0

    def _produce(self, tag: str, at: datetime) -> None:
        value = json.dumps({"tag": tag, "at": at.strftime("%Y-%m-%dT%H:%M:%SZ")})
        self._producer.produce("events", value, key=tag, partition=self._sent % 4)
        self._sent += 1


class Counts:
    """The pipeline's results for completed windows."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "check", "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition("counts", partition, 0) for partition in range(2)])
        self.found: Counter[str] = Counter()

    def read(self) -> Counter[str]:
        for message in self._consumer.consume(500, 0.2):
            assert not message.error(), message.error()
            self.found[message.key().decode()] = int(message.value())
        return self.found

    def close(self) -> None:
        self._consumer.close()


def executors(worker: int) -> list[int]:
    """Return the JVMs started by a worker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == worker and b"ExecutorBackend" in command:
                found.append(int(entry.name))
    return found


class Pipeline:
    """A query in its own driver, until stopped."""

    def __init__(self, master: str, servers: str, directory: Path) -> None:
        self._log = directory / "pipeline.log"
        script = str(Path(__file__).with_name("window_on_cluster.py"))
        command = [sys.executable, script, master, servers, str(directory / "checkpoint")]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 240
        while not condition():
            assert self._process.poll() is None, self._said
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self._said}"
            time.sleep(0.05)

    def end(self) -> None:
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0, self._said

    @property
    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for created in admin.create_topics([NewTopic("events", 4, 1), NewTopic("counts", 2, 1)]).values():
            created.result(30)
        yield broker


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(workers=2, directory=tmp_path / "cluster") as cluster:
        yield cluster


def test_counts_are_right_though_executors_are_killed(
    broker: BrokerProcess, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    feed, counts = Feed(broker.bootstrap_servers), Counts(broker.bootstrap_servers)
    with Pipeline(cluster.url, broker.bootstrap_servers, tmp_path) as pipeline:
        for worker in cluster.worker_pids:
            pipeline.wait_until(lambda: len(executors(worker)) == 1, "an executor")  # noqa: B023
            feed.send(1500)
            seen = len(counts.found)
            pipeline.wait_until(lambda: len(counts.read()) > seen, "results")  # noqa: B023
            [victim] = executors(worker)
            os.kill(victim, signal.SIGKILL)
        feed.close_windows()
        pipeline.wait_until(lambda: counts.read() == feed.expected, "the result of all that was sent")
        pipeline.end()
    counts.close()


def test_a_cluster_that_cannot_start_says_why(tmp_path: Path) -> None:
    cluster = StandaloneCluster(workers=1, memory="nothing", directory=tmp_path)
    with pytest.raises(ClusterError, match=r"^The worker-1 of the Spark cluster ended: .*"):
        cluster.start()
