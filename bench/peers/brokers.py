"""What is measured: an Ottla or an Apache Kafka broker, each a process of its own in its own directory."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from bench.peers.broker_process import BrokerProcess


class Secured(NamedTuple):
    """A second listener, and what both brokers are set to for it."""

    protocol: str
    port: int
    settings: Mapping[str, str]


SETTLE_SECONDS = 2.0  # between start and the reading of idle memory


class Broker(Protocol):
    port: int
    bootstrap_servers: str
    startup_seconds: float
    log_dir: Path

    @property
    def pid(self) -> int: ...
    @property
    def pids(self) -> list[int]: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> Broker: ...
    def stop(self) -> None: ...
    def remove(self) -> None: ...


class OttlaBroker(BrokerProcess):
    """One ``ottla start``. Owns its temporary directory."""

    name = "Ottla"

    def __init__(
        self, command: Sequence[str], *, options: Sequence[str] = (), start_timeout: float = 60
    ) -> None:
        super().__init__(None, start_timeout)
        self.directory = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
        self.log_dir = self.directory / "data"
        self._command = [*command, "start", "--listen", self.bootstrap_servers, "--data", str(self.log_dir)]
        self._command += options

    def configure(self, settings: Mapping[str, str]) -> None:
        """Before it is started."""
        for name, value in settings.items():
            self._command += ["--set", f"{name}={value}"]

    def start(self) -> Self:
        self.launch(self._command, self.directory / "ottla.out")
        return self

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


class Contestant:
    """A kind of broker under measurement, with one shared instance for the rows that can share it."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], Broker],
        launch_secured: Callable[[Secured], Broker] | None = None,
    ) -> None:
        self.name = name
        self.launch = launch
        self.launch_secured = launch_secured  # with a second listener
        self.idle_mb = 0.0
        self.loaded = False
        self._shared: Broker | None = None

    def shared(self) -> Broker:
        if self._shared is not None and not self._shared.running:
            self.close()
        if self._shared is None:
            broker = self.launch()
            try:
                broker.start()
            except BaseException:
                broker.remove()
                raise
            self._shared = broker
            time.sleep(SETTLE_SECONDS)
            self.idle_mb = mean_resident_mb(broker)
        return self._shared

    def close(self) -> None:
        """Stop the shared broker; the next row that wants one gets a new one."""
        broker, self._shared = self._shared, None
        self.loaded = False
        if broker is not None:
            broker.stop()
            broker.remove()


class Fresh:
    """A broker of its own for one measurement: ``with Fresh(contestant) as broker``."""

    def __init__(self, contestant: Contestant) -> None:
        self._broker = contestant.launch()

    def __enter__(self) -> Broker:
        try:
            self._broker.start()
        except BaseException:
            self._broker.remove()
            raise
        return self._broker

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broker.stop()
        self._broker.remove()


@contextmanager
def running(contestant: Contestant, secured: Secured) -> Iterator[Broker]:
    """A broker of its own, with a second listener, for one measurement."""
    assert contestant.launch_secured is not None
    broker = contestant.launch_secured(secured)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
        broker.remove()


def ottla_command(chosen: str | None = None) -> list[str]:
    """The command that starts Ottla: the chosen one, else the one of this Python's environment."""
    if chosen:
        return shlex.split(chosen)
    beside = Path(sys.executable).with_name("ottla")
    if beside.exists():
        return [str(beside)]
    found = shutil.which("ottla")
    if found is None:
        raise Unavailable("no `ottla` command is installed in this environment or on the PATH")
    return [found]


def ottla(chosen: str | None = None) -> Contestant:
    command = ottla_command(chosen)
    asked = subprocess.run([*command, "start", "--help"], capture_output=True, text=True)
    if asked.returncode != 0:
        said = (asked.stderr or asked.stdout).strip().splitlines() or ["nothing"]
        raise Unavailable(f"`{shlex.join(command)} start --help` fails and says: {said[-1]}")
    return started_by(command)


def started_by(command: list[str]) -> Contestant:
    def launch_secured(secured: Secured) -> Broker:
        broker = OttlaBroker(command)
        listeners = f"PLAINTEXT://{broker.bootstrap_servers},{secured.protocol}://127.0.0.1:{secured.port}"
        broker.configure({"listeners": listeners, **secured.settings})
        return broker

    return Contestant("Ottla", lambda: OttlaBroker(command), launch_secured)


def apache_kafka() -> Contestant:
    kafka_jars()

    def launch_secured(secured: Secured) -> Broker:
        return ApacheKafka(second_listener=(secured.protocol, secured.port), config=secured.settings)

    return Contestant("Apache Kafka", ApacheKafka, launch_secured)


def allow_many_files() -> None:
    """Raise this process's limit of open files as far as it may, as the JVM does by itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def process_tree(pid: int) -> list[int]:
    """The process and everything it started, as far as it is still there."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    tree, todo = [], [pid]
    while todo:
        process = todo.pop()
        tree.append(process)
        todo += children.get(process, [])
    return tree


def resident_mb(pid: int) -> float:
    """VmRSS of the process tree in MB (10^6 bytes)."""
    total = 0
    for process in process_tree(pid):
        try:
            status = Path("/proc", str(process), "status").read_text()
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total * 1024 / 1e6


def mean_resident_mb(broker: Broker) -> float:
    """Of a cluster, what one of its brokers takes on average."""
    return sum(map(resident_mb, broker.pids)) / len(broker.pids)


def cpu_seconds(pids: Iterable[int]) -> float:
    """What these processes and their children have used of the cores until now."""
    ticks = 0
    for process in [each for pid in pids for each in process_tree(pid)]:
        try:
            stat = Path("/proc", str(process), "stat").read_text()
        except OSError:
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
