"""Local Spark cluster from the pip install: a master and workers, each in its own process.

    with StandaloneCluster(workers=2) as cluster:
        spark = session("orders", master=cluster.url)

For tests, and for trying a pipeline on a cluster. `python -m ottla.spark.standalone` runs one until Ctrl-C.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.jvm.java import cache_directory, java_home
from ottla.spark.spark_home import linked_home

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_LOOPBACK = "127.0.0.1"


class ClusterError(Exception):
    pass


class StandaloneCluster:
    """Owns its processes and, unless `directory` is given, the directory with their logs and files."""

    def __init__(
        self, workers: int = 2, cores: int = 1, memory: str = "1g", directory: Path | None = None
    ) -> None:
        """Configure the cluster. `cores` and `memory` apply to each worker."""
        self._count = workers
        self._worker_options = ["--cores", str(cores), "--memory", memory, "--webui-port", "0"]
        self._temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="ottla-spark-")) if directory is None else directory
        self._port, self._web_port = _free_ports(2)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        return f"spark://{_LOOPBACK}:{self._port}"

    @property
    def worker_pids(self) -> list[int]:
        return [process.pid for name, process in self._processes.items() if name != "master"]

    @property
    def master_pid(self) -> int:
        return self._processes["master"].pid

    def start_master(self) -> None:
        """Start the master, or start it again after its end. Workers find it by its port."""
        before = self._processes.get("master")
        if before is not None:
            before.wait()
        ports = ["--port", str(self._port), "--webui-port", str(self._web_port)]
        self._launch("master", _MASTER, ports)

    def wait_for_workers(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while self._alive_workers() < self._count:
            self._check(deadline, seconds)
            time.sleep(0.1)

    def start(self, seconds: float = 60) -> Self:
        """Start the cluster and wait until all workers have registered with the master."""
        try:
            self.start_master()
            for number in range(1, self._count + 1):
                name = f"worker-{number}"
                work = ["--work-dir", str(self.directory / name)]
                self._launch(name, _WORKER, [*self._worker_options, *work, self.url])
            self.wait_for_workers(seconds)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, seconds: float = 20) -> None:
        # Stop workers first, so that they can still end their executors.
        for process in reversed(self._processes.values()):
            process.terminate()
        deadline = time.monotonic() + seconds
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _launch(self, name: str, main_class: str, options: Sequence[str]) -> None:
        import pyspark

        home = linked_home(cache_directory()) or Path(pyspark.__file__).parent
        environment = {
            "PYSPARK_PYTHON": sys.executable,
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        # The script execs the JVM, so signals go to this process.
        command = [str(home / "bin" / "spark-class"), main_class, "--host", _LOOPBACK, *options]
        with open(self._log(name), "ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://{_LOOPBACK}:{self._web_port}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError, KeyError):
            return 0

    def _check(self, deadline: float, seconds: float) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                said = self._log(name).read_text(errors="replace").strip().splitlines()
                raise ClusterError(
                    f"The {name} of the Spark cluster ended: {said[-1] if said else 'silently'}"
                )
        if time.monotonic() > deadline:
            raise ClusterError(f"The Spark cluster was not complete after {seconds:g} seconds.")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server((_LOOPBACK, 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def main() -> int:
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with StandaloneCluster() as cluster:
            print(f"A Spark cluster of two workers answers at {cluster.url}; Ctrl-C ends it.", flush=True)
            stopped.wait()
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
