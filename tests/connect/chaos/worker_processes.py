"""Distributed workers as processes to kill: `connect-distributed` on Spark, or its equivalent with threads."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.python_process import start_child
from ottla.testing.ports import free_ports
from tests.connect.worker.workers import call, wait_for

ROOT = Path(__file__).parents[3]
#: The entry point of the script, and its equivalent with threads in place of Spark.
_PROGRAMS = {
    "spark": ("-c", "from ottla.cli.kafka.connect import distributed; distributed()"),
    "threads": ("-m", "tests.connect.chaos.without_spark"),
}


class WorkerProcess:
    """A worker with its JVM, the daemon that forks Python, and its tasks."""

    _numbers = itertools.count(1)

    def __init__(self, directory: Path, properties: Mapping[str, str], engine: str = "spark") -> None:
        number = next(self._numbers)
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.id = f"127.0.0.1:{port}"
        self.log = directory / f"worker-{number}.log"
        file = directory / f"worker-{number}.properties"
        given = {**properties, "listeners": self.url}
        file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with self.log.open("wb") as log:
            self.process: subprocess.Popen[bytes] = start_child(
                [sys.executable, *_PROGRAMS[engine], str(file)],
                log,
                env={**os.environ, "PYTHONPATH": path},
                new_session=True,
            )

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, f"the worker has ended: {self.log.read_text()[-3000:]}"
        return "is ready." in self.log.read_text()

    def wait_until_ready(self, seconds: float = 240) -> None:
        wait_for(lambda: self.is_ready, f"the worker did not start: {self.log}", seconds)

    def kill(self) -> None:
        """Kill the worker alone, like the OOM killer; its children have to notice."""
        self.process.kill()
        self.process.wait(60)

    def kill_with_everything(self) -> None:
        """Kill everything at once, like a power failure."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)

    def terminate(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        self.kill_with_everything()

    def pids(self) -> list[int]:
        """Return the processes of its session, which no other process shares."""
        return [pid for pid in _processes() if _session(pid) == self.process.pid]


def _processes() -> list[int]:
    return [int(each) for each in os.listdir("/proc") if each.isdigit()]


def _session(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    # The fields after the name, which may contain blanks and parentheses: state, parent, group, session.
    return int(stat.rpartition(")")[2].split()[3])


def statuses(workers: list[WorkerProcess]) -> dict[str, Any]:
    """Return the status of all connectors from the first worker that responds."""
    for worker in workers:
        try:
            answer = call(worker.url, "GET", "/connectors?expand=status")
        except OSError:
            continue
        if answer.status == 200:
            return {name: each["status"] for name, each in answer.body.items()}
    return {}


def runs(status: Mapping[str, Any], alive: set[str], tasks: int = 1) -> bool:
    """Return True if the connector and all its tasks run on live workers."""
    found = [status["connector"], *status["tasks"]]
    return len(found) == tasks + 1 and all(
        each["state"] == "RUNNING" and each["worker_id"] in alive for each in found
    )


def failures(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the first line of each trace."""
    return {
        f"{name} {part.get('id', '')}".strip(): part.get("trace", "").partition("\n")[0]
        for name, status in found.items()
        for part in (status["connector"], *status["tasks"])
        if part["state"] == "FAILED"
    }
