"""`ottla start --brokers N`: a whole cluster on this machine, ZooKeeper included, one process per broker."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import click

from ottla.cli.errors import JobError
from ottla.cli.signals import ending_signals
from ottla.jvm.java import NoJava
from ottla.jvm.zookeeper import NoZooKeeper, PortTaken, ServerSecurity, ZooKeeperServer
from ottla.python_process import python_command, python_environment, start_child

READY = "Ottla is ready."

_ZOOKEEPER_PORT = 2181
_PORT_ATTEMPTS = 3
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.05


class Protection(NamedTuple):
    """TLS and logins of a cluster's ZooKeeper, and the brokers' access to it."""

    zookeeper: ServerSecurity | None = None
    settings: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}


class LocalCluster:
    """ZooKeeper and its brokers. Broker N logs to the file `broker-N.log`."""

    def __init__(
        self,
        brokers: int,
        host: str,
        port: int,
        data: Path,
        settings: Mapping[str, str],
        options: Sequence[str] = (),
        protection: Protection | None = None,
    ) -> None:
        self.data = data
        self.addresses = [f"{host}:{each}" for each in _ports(host, port, brokers)]
        self._protection = protection or Protection()
        self._settings = {**cluster_settings(brokers), **self._protection.settings, **settings}
        self._options = list(options)
        self._zookeeper = self._choose_zookeeper()
        self._brokers: dict[int, subprocess.Popen[bytes]] = {}
        self._reported: set[int] = set()

    def _choose_zookeeper(self) -> ZooKeeperServer:
        return ZooKeeperServer(
            self.data / "zookeeper", _zookeeper_port(), security=self._protection.zookeeper
        )

    @property
    def zookeeper(self) -> str:
        return self._zookeeper.address

    @property
    def metrics_urls(self) -> list[str]:
        host, port = (
            self._settings.get("metrics.host", "127.0.0.1"),
            int(self._settings.get("metrics.port", -1)),
        )
        return (
            [f"http://{host}:{port + each}/metrics" for each in range(len(self.addresses))]
            if port > 0
            else []
        )

    def log(self, broker_id: int) -> Path:
        return self.data / f"broker-{broker_id}.log"

    def start(self, stopping: Callable[[], bool]) -> None:
        try:
            self.data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(f"{self.data} cannot be used for its data: {error.strerror}.") from None
        try:
            self._start_zookeeper()
        except (NoJava, NoZooKeeper) as error:
            raise JobError(str(error)) from None
        begins = {broker_id: self._launch(broker_id) for broker_id in range(len(self.addresses))}
        deadline = time.monotonic() + _START_SECONDS
        for broker_id, begin in begins.items():
            while READY not in (said := self._said(broker_id, begin)):
                if stopping():
                    return
                if self._brokers[broker_id].poll() is not None:
                    raise JobError(f"Broker {broker_id} did not start: {_last(said).removeprefix('Error: ')}")
                if time.monotonic() > deadline:
                    raise JobError(f"Broker {broker_id} did not start in time: see {self.log(broker_id)}.")
                time.sleep(_LOOK_SECONDS)

    def _start_zookeeper(self) -> None:
        for _ in range(_PORT_ATTEMPTS):
            try:
                return self._zookeeper.start()
            except PortTaken:  # another cluster was faster
                self._zookeeper = self._choose_zookeeper()
        self._zookeeper.start()

    def _launch(self, broker_id: int) -> int:
        command = python_command("-m", "ottla", "start", "--listen", self.addresses[broker_id])
        command += ["--data", str(self.data / f"broker-{broker_id}"), *self._options]
        settings = {
            **self._settings,
            "broker.id": str(broker_id),
            "zookeeper.connect": self._zookeeper.address,
        }
        if int(settings.get("metrics.port", "-1")) > 0:
            settings["metrics.port"] = str(int(settings["metrics.port"]) + broker_id)
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        with self.log(broker_id).open("ab") as log:
            begin = log.tell()
            # Ctrl-C is for this process, which ends them in order.
            environment = {
                **python_environment(),
                **self._protection.environment,
                "PYTHONUNBUFFERED": "1",
            }
            self._brokers[broker_id] = start_child(command, log, env=environment, new_session=True)
        return begin

    def _said(self, broker_id: int, begin: int) -> str:
        with self.log(broker_id).open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def ended(self) -> list[int]:
        found = [each for each, process in self._brokers.items() if process.poll() is not None]
        new = [each for each in found if each not in self._reported]
        self._reported.update(new)
        return new

    @property
    def is_alive(self) -> bool:
        return any(process.poll() is None for process in self._brokers.values())

    def stop(self) -> None:
        """Stop the brokers one after another, so that each can move its leaders to the others; then ZooKeeper."""
        for process in self._brokers.values():
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._zookeeper.stop()

    def kill(self) -> None:
        for process in self._brokers.values():
            process.kill()
        self._zookeeper.kill()


def run_cluster(
    brokers: int,
    listen: str,
    data: Path,
    settings: Mapping[str, str],
    options: Sequence[str],
    *,
    announce: Callable[[LocalCluster], None] | None,
    protection: Protection | None = None,
    finish: Callable[[], None] | None = None,
) -> None:
    """Run the cluster until Ctrl-C or SIGTERM. `finish` is called before the brokers stop."""
    host, _, port = listen.rpartition(":")
    cluster = LocalCluster(brokers, host, int(port), data, settings, options, protection)
    asked = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:  # asked a second time
            cluster.kill()
        asked = True

    before = {number: signal.signal(number, stop) for number in ending_signals()}
    try:
        cluster.start(lambda: asked)
        if announce is not None and not asked:
            announce(cluster)
        while not asked and cluster.is_alive:
            for broker_id in cluster.ended():
                click.echo(f"Broker {broker_id} has ended: see {cluster.log(broker_id)}.", err=True)
            time.sleep(_LOOK_SECONDS)
    finally:
        if finish is not None:
            finish()
        cluster.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    if not asked:
        raise JobError(f"All brokers have ended: see {cluster.log(0)} and those beside it.")


def cluster_settings(brokers: int) -> dict[str, str]:
    """Settings that differ from Kafka's defaults: replicated topics, and no waiting for further members."""
    factor, in_sync = str(min(3, brokers)), str(min(2, brokers))
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
    }


def _ports(host: str, port: int, count: int) -> list[int]:
    if port:
        if port + count > 65536:
            raise JobError(
                f"{count} brokers need {count} ports from {port}, but the last port is 65535. Use a lower port."
            )
        return list(range(port, port + count))
    probes = [socket.create_server((host.strip("[]"), 0)) for _ in range(count)]
    found = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return found


def _zookeeper_port() -> int:
    for port in (_ZOOKEEPER_PORT, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as probe:
                found: int = probe.getsockname()[1]
                return found
        except OSError:
            continue
    raise JobError("No port is free for ZooKeeper.")


def _last(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")
