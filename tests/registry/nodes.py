"""Registry nodes as processes that tests can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Self

from ottla.testing import Broker

#: Short session timeouts: the group replaces killed nodes within two seconds.
BROKER_CONFIG = {"group.min.session.timeout.ms": "1000"}
SETTINGS = {
    "kafkastore.session.timeout.ms": "2000",
    "kafkastore.heartbeat.interval.ms": "300",
    "kafkastore.rebalance.timeout.ms": "2000",
}


class NodeProcess:
    def __init__(self, broker: Broker, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        self.command = [
            sys.executable,
            "-m",
            "ottla.cli",
            "registry",
            "start",
            "--listen",
            f"127.0.0.1:{port}",
        ]
        self.command += ["--bootstrap-server", broker.bootstrap_servers]
        for name, value in SETTINGS.items():
            self.command += ["--set", f"{name}={value}"]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self._log.read_text()
            with suppress(OSError), urllib.request.urlopen(self.url + "/subjects", timeout=5):
                return self
            time.sleep(0.05)
        raise AssertionError(f"{self.url} does not answer: {self._log.read_text()}")

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Stop the node like an operator."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(30) == 0, self._log.read_text()
