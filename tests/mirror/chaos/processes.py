"""The processes to kill: the brokers of both sides, the mirror, and its Spark workers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ottla.testing import Cluster
from tests.broker_process import BrokerProcess
from tests.spark.test_chaos import processes_below

_OPTIONS = {
    "log.cleaner.backoff.ms": "1000",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class Side:
    """A cluster of one broker, or of several with ZooKeeper."""

    def __init__(self, directory: Path, brokers: int) -> None:
        self._cluster: Cluster | None = None
        self._broker: BrokerProcess | None = None
        if brokers > 1:
            config = {**_OPTIONS, "default.replication.factor": str(brokers), "min.insync.replicas": "2"}
            self._cluster = Cluster(brokers, data=directory, config=config)
        else:
            options = [word for name, value in _OPTIONS.items() for word in ("--set", f"{name}={value}")]
            self._broker = BrokerProcess(directory, options)

    @property
    def servers(self) -> str:
        if self._cluster is not None:
            return self._cluster.bootstrap_servers
        assert self._broker is not None
        return self._broker.bootstrap_servers

    def start(self) -> None:
        if self._cluster is not None:
            self._cluster.start()
        elif self._broker is not None:
            self._broker.start(60)

    def kill_one(self) -> None:
        """Kill one broker with -9 and restart it a moment later."""
        if self._cluster is not None:
            victim = random.choice(list(self._cluster.ports))
            self._cluster.kill(victim)
            time.sleep(random.random() * 3)
            self._cluster.restart(victim)
        elif self._broker is not None:
            self._broker.kill()
            time.sleep(random.random())
            self._broker.start(60)

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        elif self._broker is not None and self._broker.is_running:
            self._broker.kill()


class MirrorProcess:
    """`ottla mirror start`, or its equivalent without Spark, restarted after each kill."""

    def __init__(self, directory: Path, properties: Mapping[str, str], *, with_spark: bool = True) -> None:
        self._with_spark = with_spark
        self._file = directory / "mm2.properties"
        self._file.write_text("".join(f"{name} = {value}\n" for name, value in properties.items()))
        self.log = directory / "mirror.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        if self._with_spark:
            command = ["ottla", "mirror", "start", str(self._file), "--master", "local[2]"]
        else:
            command = ["tests.mirror.chaos.without_spark", str(self._file)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.starts += 1

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-3000:]

    def kill(self) -> None:
        """Kill Python, Java and the workers with -9."""
        if self._process is None:
            return
        for pid in processes_below(self._process.pid, ""):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def kill_worker(self) -> None:
        assert self._process is not None
        workers = processes_below(self._process.pid, "pyspark.daemon")
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(workers), signal.SIGKILL)
