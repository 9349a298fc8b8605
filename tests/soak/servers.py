"""The processes of a soak: the secured cluster with its HTTP servers, the mirror's target, and Spark."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ottla.python_process import start_child
from ottla.testing.ports import free_ports
from ottla.testing.tampering import Tampering
from tests.ports import ports_in_a_row

BROKERS = (0, 1, 2)
SESSION_SECONDS = 6.0
_SETTINGS = {
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "replica.lag.time.max.ms": "5000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.segment.bytes": "16777216",
}


def wait_until(condition: Callable[[], object], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"this did not happen within {seconds:.0f} s: {what}")
        time.sleep(0.2)


class Process:
    """A child that ends with the soak, with its output in a file."""

    def __init__(self, name: str, arguments: list[str], directory: Path, ready: str) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        with self.log.open("ab") as log:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            self._process = start_child([sys.executable, "-m", *arguments], log, env=environment)
        wait_until(lambda: ready in self._said(), f"{name} says '{ready}', see {self.log}", 180)

    def _said(self) -> str:
        if self._process.poll() is not None:
            words = self.log.read_text(errors="replace").strip().splitlines()[-3:]
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}: {' '.join(words)}")
        return self.log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self, seconds: float = 60) -> None:
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._process.kill()
        self._process.wait()


class SecuredCluster(Process):
    """`ottla start --secure --brokers 3` with everything that `--all` starts, on free ports."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "cluster"
        self.registry, self.rest, self.console = (f"127.0.0.1:{port}" for port in free_ports(3))
        first = ports_in_a_row(len(BROKERS))
        self.ports = dict(zip(BROKERS, range(first, first + len(BROKERS)), strict=True))
        arguments = ["tests.soak.supervised_start", "--secure", "--brokers", str(len(BROKERS))]
        arguments += ["--listen", f"127.0.0.1:{first}", "--data", str(self.data)]
        arguments += ["--registry", self.registry, "--rest", self.rest, "--console", self.console]
        arguments += ["--metrics", f"127.0.0.1:{ports_in_a_row(len(BROKERS))}", "--log-level", "warning"]
        for name, value in _SETTINGS.items():
            arguments += ["--set", f"{name}={value}"]
        super().__init__("cluster", arguments, directory, "Ctrl-C")

    @property
    def client_file(self) -> Path:
        return self.data / "client.properties"

    def client(self) -> dict[str, str]:
        """Return librdkafka settings for the admin."""
        lines = self.client_file.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    # Brokers

    def broker_pid(self, broker: int) -> int:
        return int((self.data / f"broker-{broker}.pid").read_text())

    def tampering(self, broker: int) -> Tampering:
        return Tampering(self.data / f"broker-{broker}.tampering")

    @contextlib.contextmanager
    def down(self, broker: int) -> Any:
        """Kill a broker for the duration of the block."""
        mark = self.data / f"broker-{broker}.down"
        mark.touch()
        os.kill(self.broker_pid(broker), signal.SIGKILL)
        try:
            yield
        finally:
            mark.unlink()

    def certificate(self, broker: int) -> bytes:
        """Return the certificate that a broker presents to a new client."""
        context = ssl.create_default_context(cafile=str(self.data / "ca.pem"))
        with (
            socket.create_connection(("127.0.0.1", self.ports[broker]), timeout=10) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as wrapped,
        ):
            return wrapped.getpeercert(binary_form=True) or b""

    # HTTP

    def get(self, address: str, path: str) -> int:
        return request(f"http://{address}{path}", self.client())


def request(url: str, client: Mapping[str, str], method: str = "GET", body: bytes | None = None) -> int:
    """Send a request with the admin's login and return the status, or 0 without a response."""
    try:
        with urllib.request.urlopen(_asked(url, client, method, body), timeout=30) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def answer_of(url: str, client: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON object at a URL, or an empty one."""
    try:
        with urllib.request.urlopen(_asked(url, client), timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError):
        return {}


def _asked(
    url: str, client: Mapping[str, str], method: str = "GET", body: bytes | None = None
) -> urllib.request.Request:
    login = base64.b64encode(f"{client['sasl.username']}:{client['sasl.password']}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    return urllib.request.Request(url, body, headers, method=method)
