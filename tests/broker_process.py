"""A broker in its own process, for tests that kill it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.testing.ports import ReservedPorts, free_ports


def free_port() -> int:
    [port] = free_ports(1)
    return port


class BrokerProcess:
    """`ottla start` on a port and a directory that outlive the process."""

    def __init__(self, data: Path, options: Sequence[str] = (), *, descriptors: int | None = None) -> None:
        self.data = data
        self._descriptors = descriptors
        self._reserved = ReservedPorts(1)
        [self.port] = self._reserved.numbers
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, seconds: float = 30) -> None:
        command = [sys.executable, "-m", "ottla", "start", "--listen", self.bootstrap_servers]
        command += ["--data", str(self.data), "--set", "group.initial.rebalance.delay.ms=0", *self._options]
        if self._descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {self._descriptors}; exec "$@"', "sh", *command]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + seconds
        while True:
            assert self._process.poll() is None, f"the broker ended with {self._process.returncode}"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return
            assert time.monotonic() < deadline, "the broker did not start"
            time.sleep(0.01)

    def kill(self) -> None:
        """Send SIGKILL: the broker flushes and logs nothing."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=30)

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.kill()
