"""Distributed workers of Connect beside a broker: Kafka's own, from Maven Central, and Ottla's; both speak REST."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import application_classpath, java
from ottla.python_process import start_child

_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"


class ConnectWorker:
    """Owns its process. `settings` are those of connect-distributed.properties, with which `command` is started."""

    def __init__(self, directory: Path, settings: Mapping[str, str], command: Sequence[str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        properties = {"listeners": f"http://127.0.0.1:{self.port}", **settings}
        file = directory / f"worker-{self.port}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.log = directory / f"worker-{self.port}.log"
        with self.log.open("ab") as log:
            self._process: subprocess.Popen[bytes] = start_child([*command, str(file)], log)
        self._wait_until_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                if self.ask("GET", "/connectors") is not None:
                    return
            except OSError:
                pass
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{self.log} may say why Connect did not start"
            time.sleep(0.2)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            said = answer.read()
        return json.loads(said) if said else None

    def put(self, config: Mapping[str, str]) -> None:
        """Create a connector or change its config; while the workers rebalance that is tried again."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self.ask("PUT", f"/connectors/{config['name']}/config", dict(config))
                return
            except urllib.error.HTTPError as error:
                if error.code not in (409, 500) or time.monotonic() > deadline:
                    raise AssertionError(error.read().decode()) from None
            time.sleep(0.2)

    def status(self, name: str) -> Any:
        return self.ask("GET", f"/connectors/{name}/status")

    def stop(self) -> None:
        """Cleanly: tasks flush, and offsets are committed."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def delete(self, name: str) -> None:
        self.ask("DELETE", f"/connectors/{name}")


class KafkaConnect(ConnectWorker):
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings, [java(), "-Xmx1g", "-cp", application_classpath(), _CLASS])


class OttlaConnect(ConnectWorker):
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings, [sys.executable, "-m", "ottla", "connect", "start", "--config"])
