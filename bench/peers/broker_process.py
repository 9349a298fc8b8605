"""A broker in a process of its own, whoever made it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measuring.wire import free_port, wait_until_ready


class BrokerProcess:
    """Owns its process, and stops only that. What it prints is in the file `output`."""

    name: str

    def __init__(self, port: int | None, start_timeout: float) -> None:
        self.port = port or free_port()
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.startup_seconds = 0.0
        self._start_timeout = start_timeout
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self, command: Sequence[str], output: Path) -> None:
        """Start the process and wait until it answers ApiVersions."""
        began = time.perf_counter()
        with open(output, "ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until_ready("127.0.0.1", self.port, self._process, timeout=self._start_timeout)
        except Exception as error:
            self.stop()
            tail = output.read_text(errors="replace").strip()[-2000:]
            raise RuntimeError(f"{self.name} did not start: {error}\n{tail}") from error
        self.startup_seconds = time.perf_counter() - began

    def stop(self, *, timeout: float = 30) -> None:
        """Ask it to go, as SIGTERM does; kill it if it does not."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
