"""Workers in this process, with tasks in threads in place of Spark. Everything else is real."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import Engine
from ottla.connect.runtime.spark.host import ThreadHost
from ottla.connect.worker.local_connectors import ConnectorEngine
from ottla.connect.worker.server import ConnectServer
from ottla.http.background import InBackground

STRING = "org.apache.kafka.connect.storage.StringConverter"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]


def call(
    url: str, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
) -> Answer:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(
        url + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Answer(answer.status, _json(answer.read()), answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _json(error.read()), error.headers)


def _json(data: bytes) -> Any:
    return json.loads(data) if data else None


def wait_for(condition: Callable[[], Any], what: str = "", seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what or "this did not happen in time"
        time.sleep(0.02)
    return found


def distributed_properties(servers: str, group: str | None = None, **settings: str) -> dict[str, str]:
    group = group or f"workers-{uuid.uuid4().hex[:8]}"
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "key.converter": STRING,
        "value.converter": STRING,
        "config.storage.topic": f"{group}-configs",
        "offset.storage.topic": f"{group}-offsets",
        "status.storage.topic": f"{group}-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.storage.partitions": "5",
        "offset.flush.interval.ms": "200",
        "listeners": "http://127.0.0.1:0",
        "connector.file.directories": "/",
        "heartbeat.interval.ms": "500",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def standalone_properties(servers: str, file: object, **settings: str) -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(file),
        "offset.flush.interval.ms": "200",
        "listeners": "http://127.0.0.1:0",
        "connector.file.directories": "/",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def in_threads(worker: WorkerConfig) -> ConnectorEngine:
    return Engine(None, worker, host=ThreadHost())


class Worker(InBackground):
    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        connectors: Sequence[Mapping[str, str]] = (),
        initial_states: Mapping[str, str] | None = None,
        engine: Callable[[WorkerConfig], ConnectorEngine] = in_threads,
    ) -> None:
        distributed = "group.id" in properties
        self.config = WorkerConfig.from_properties(properties, distributed=distributed)
        self.server: ConnectServer | None = None

        def make() -> ConnectServer:
            self.server = ConnectServer(
                self.config, engine, connectors=connectors, initial_states=initial_states
            )
            return self.server

        super().__init__(make, "connect-worker")

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        return call(self.url, method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})

    def status(self, name: str) -> tuple[str, list[str]]:
        """Return the state of the connector and of its tasks."""
        answer = self.call("GET", f"/connectors/{name}/status")
        if answer.status != 200:
            return "", []
        return answer.body["connector"]["state"], [each["state"] for each in answer.body["tasks"]]

    def wait_until(self, name: str, state: str, tasks: Sequence[str] | None = None) -> None:
        def is_so() -> bool:
            found, of_tasks = self.status(name)
            return found == state and (tasks is None or of_tasks == list(tasks))

        wait_for(is_so, f"{name} is {self.status(name)}, not {state} {tasks or ''}")

    def wait_until_ready(self) -> None:
        wait_for(lambda: self.call("GET", "/health").status == 200, "the worker is not ready")
