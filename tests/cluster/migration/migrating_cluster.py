"""A cluster that moves between Apache Kafka and Ottla, keeping its properties, directories and ZooKeeper."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient

from bench.peers.apache_kafka import ZOOKEEPER_VERSION, java, kafka_classpath
from ottla.jvm.zookeeper import ServerSecurity
from ottla.log.files.checkpoint import CLEANER_CHECKPOINT, read_lines
from ottla.testing import ZooKeeper
from ottla.testing.ports import ReservedPorts
from tests.installed import kafka_tool

_JVM = ("-Xms128m", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.kafka.server.KafkaConfig=WARN
"""
_COMPLAINT = re.compile(r"\b(WARN|WARNING|ERROR|FATAL)\b|Exception")
# Kafka's usual log lines when several brokers start at once or topics are created
_OF_ITS_OWN = re.compile(
    r"kafka\.clients\.NetworkClient|kafka\.controller\.RequestSendThread|Received UNKNOWN_TOPIC_ID|"
    r"IOException: Connection to|Received UNKNOWN_TOPIC_OR_PARTITION|marked as failed|larger than available brokers|"
    r"NotEnoughReplicasException|Error processing append operation|state\.change\.logger|StateChangeFailed|"
    r"Error in response for fetch request .*ReplicaFetcherThread"  # followed by a line about a broken connection
)
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0


class MigratingCluster:
    """Brokers of Apache Kafka or of Ottla on the same data. `settings` extend every server.properties.

    `java_options` is the operator's KAFKA_OPTS.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        brokers: int = 3,
        *,
        zookeeper_security: ServerSecurity | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.zookeeper = ZooKeeper(data=directory / "zookeeper", security=zookeeper_security)
        self._java_options = list(java_options)
        self._reserved = ReservedPorts(brokers)
        self.ports = dict(enumerate(self._reserved.numbers))
        self._settings = settings
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._read: dict[int, int] = {}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def log_dirs(self, broker_id: int) -> list[Path]:
        return [self.directory / f"broker-{broker_id}" / name for name in ("disk-1", "disk-2")]

    def properties(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}" / "server.properties"

    def log(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}.log"

    def cleaned(self, topic: str, partition: int) -> int:
        """Return the offset up to which a partition is compacted, from the first broker that logs it."""
        for disk in self.log_dirs(0):
            for line in read_lines(str(disk / CLEANER_CHECKPOINT)).entries:
                if line.startswith(f"{topic} {partition} "):
                    return int(line.split()[2])
        return 0

    def directories(self, topic: str) -> set[int]:
        """Return the brokers that hold a live directory of a topic, neither marked for deletion nor stray."""
        return {
            broker_id
            for broker_id in self.ports
            for disk in self.log_dirs(broker_id)
            for path in disk.glob(f"{topic}-*")
            if not path.name.endswith(("-stray", "-delete"))
        }

    # Starting and stopping

    def start_kafka(self, brokers: Sequence[int] | None = None) -> None:
        log4j = self.directory / "log4j.properties"
        log4j.write_text(_LOG4J)
        command = [java(), *_JVM, *self._java_options, f"-Dlog4j.configuration=file:{log4j}", "-cp"]
        self._start([*command, kafka_classpath(ZOOKEEPER_VERSION), "kafka.Kafka"], brokers)

    def start_ottla(self, brokers: Sequence[int] | None = None) -> None:
        self._start([kafka_tool("server-start")], brokers)

    def refuse_ottla(self, broker_id: int) -> str:
        """Return Ottla's message when it refuses to start."""
        command = [kafka_tool("server-start"), str(self.properties(broker_id))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
        assert done.returncode == 1
        return done.stderr.strip().splitlines()[-1]

    def wait_for_sessions(self) -> None:
        """Wait until ZooKeeper has expired the sessions of the killed brokers."""
        client = KazooClient(f"{self.zookeeper.connect}/migrating")
        client.start()
        deadline = time.monotonic() + _STOP_SECONDS
        while client.get_children("/brokers/ids"):
            assert time.monotonic() < deadline, "the brokers are still registered"
            time.sleep(0.1)
        client.stop()
        client.close()

    def _start(self, command: list[str], brokers: Sequence[int] | None) -> None:
        wanted = list(self.ports) if brokers is None else brokers
        for broker_id in wanted:
            self._read[broker_id] = self.log(broker_id).stat().st_size if self.log(broker_id).exists() else 0
            with self.log(broker_id).open("ab") as log:
                self._processes[broker_id] = subprocess.Popen(
                    [*command, str(self.properties(broker_id))],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "KAFKA_OPTS": " ".join(self._java_options)},
                )
        deadline = time.monotonic() + _START_SECONDS
        for broker_id in wanted:
            while "started (kafka.server.KafkaServer)" not in self.said(broker_id):
                code = self._processes[broker_id].poll()
                assert code is None, f"broker {broker_id} ended with {code}: {self.said(broker_id)[-2000:]}"
                assert time.monotonic() < deadline, f"broker {broker_id} did not start"
                time.sleep(0.1)

    def stop(self, brokers: Sequence[int] | None = None) -> None:
        """Send SIGTERM to all brokers at once, as for a cluster shutdown."""
        wanted = list(self._processes) if brokers is None else brokers
        for broker_id in wanted:
            self._processes[broker_id].send_signal(signal.SIGTERM)
        for broker_id in wanted:
            self._processes.pop(broker_id).wait(timeout=_STOP_SECONDS)

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def said(self, broker_id: int) -> str:
        """Return a broker's log since its last start."""
        with self.log(broker_id).open("rb") as log:
            log.seek(self._read[broker_id])
            return log.read().decode(errors="replace")

    def complaints(self, but: Sequence[str] = ()) -> list[str]:
        """Return the brokers' warnings since their last start, except lines that contain a word of `but`."""
        found = []
        for broker_id in self.ports:
            for line in self.said(broker_id).splitlines():
                if (
                    _COMPLAINT.search(line)
                    and not _OF_ITS_OWN.search(line)
                    and not any(each in line for each in but)
                ):
                    found.append(f"{broker_id}: {line}")
        return found

    # Lifecycle

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.zookeeper.start()
        for broker_id, port in self.ports.items():
            settings = {
                "broker.id": str(broker_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": ",".join(map(str, self.log_dirs(broker_id))),
                "zookeeper.connect": f"{self.zookeeper.connect}/migrating",
                **self._settings,
            }
            self.properties(broker_id).parent.mkdir(parents=True, exist_ok=True)
            self.properties(broker_id).write_text(
                "".join(f"{key}={value}\n" for key, value in settings.items())
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.zookeeper.stop()
