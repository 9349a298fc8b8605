"""Connectors run by the engine, in threads unless a test asks for Spark."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from ottla.client.cluster import Cluster
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import LATEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import ConnectorStatus, Engine, RunningConnector, State
from ottla.connect.runtime.spark.host import Host, ThreadHost
from ottla.records.kernels import decode
from ottla.testing import Broker

STRING = "org.apache.kafka.connect.storage.StringConverter"


def wait_for(condition: Callable[[], Any], what: str = "", seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what or "this did not happen in time"
        time.sleep(0.02)
    return found


class Found(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    timestamp: int


def committed_records(settings: Settings, topic: str) -> list[Found]:
    cluster = Cluster(settings)
    try:
        found = cluster.topics([topic]).get(topic)
        if found is None:
            return []
        ends = list_offsets(cluster, dict.fromkeys(found.partitions, LATEST), READ_COMMITTED)
        records: list[Found] = []
        for partition in found.partitions:
            fetcher = PartitionFetcher(cluster, partition, FetchOptions(isolation_level=READ_COMMITTED))
            position = 0
            while position < ends[partition].offset:
                fetched = fetcher.fetch(position)
                columns, position = decode(
                    fetched.records,
                    start=position,
                    end=ends[partition].offset,
                    with_headers=True,
                    aborted=fetched.aborted,
                )
                records += map(
                    Found._make,
                    zip(
                        [partition.partition] * len(columns.keys),
                        columns.keys.to_pylist(),
                        columns.values.to_pylist(),
                        [] if columns.headers is None else columns.headers.to_pylist(),
                        columns.timestamps.to_pylist(),
                        strict=True,
                    ),
                )
        return records
    finally:
        cluster.close()


def _has_failed(status: ConnectorStatus) -> bool:
    return State.FAILED in (status.state, *(each.state for each in status.tasks))


class Worker:
    """An engine, with the status of its connectors."""

    def __init__(
        self, broker: Broker, settings: Mapping[str, str], engine: Callable[[WorkerConfig], Engine]
    ) -> None:
        self.broker = broker
        self.config = WorkerConfig.from_properties(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": f"workers-{uuid.uuid4().hex[:8]}",
                "key.converter": STRING,
                "value.converter": STRING,
                "config.storage.topic": "configs",
                "status.storage.topic": "statuses",
                "offset.flush.interval.ms": "200",
                **settings,
            }
        )
        self.engine = engine(self.config)
        self.running: list[RunningConnector] = []
        self.history: dict[str, list[ConnectorStatus]] = {}
        self.topics: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def start(self, config: Mapping[str, str], **more: Any) -> RunningConnector:
        def changed(status: ConnectorStatus) -> None:
            with self._lock:
                self.history.setdefault(config["name"], []).append(status)

        connector = self.engine.start(
            config["name"], config, on_change=changed, on_topic=lambda *topic: self.topics.add(topic), **more
        )
        self.running.append(connector)
        return connector

    def await_state(self, connector: RunningConnector, *states: State) -> None:
        """Wait for a state of the connector and each of its tasks."""

        def reached() -> bool:
            status = connector.status
            return (status.state, *(each.state for each in status.tasks)) == states

        wait_for(reached, f"not {states} but {connector.status}")

    def records(self, topic: str) -> list[Found]:
        """Return the committed records by partition."""
        return committed_records(self.config.client_settings, topic)

    def values(self, topic: str) -> list[str | None]:
        return [None if each.value is None else each.value.decode() for each in self.records(topic)]

    def await_values(self, topic: str, count: int) -> list[str | None]:
        def arrived() -> bool:
            failed = [each.status for each in self.running if _has_failed(each.status)]
            assert not failed, failed
            return len(self.records(topic)) >= count

        wait_for(arrived, f"{topic} did not get {count} records")
        return self.values(topic)

    def close(self) -> None:
        for each in self.running:
            each.stop()
        self.engine.close()


@pytest.fixture
def offset_topic(ottla_broker: Broker) -> str:
    name = f"offsets-{uuid.uuid4().hex[:8]}"
    ottla_broker.create_topic(name, 5, config={"cleanup.policy": "compact"})
    return name


@pytest.fixture
def new_worker(ottla_broker: Broker, offset_topic: str) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def make(host: Host | None = None, **settings: str) -> Worker:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        worker = Worker(
            ottla_broker,
            {"offset.storage.topic": offset_topic, **given},
            lambda config: Engine(None, config, host=host or ThreadHost()),
        )
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.close()


@pytest.fixture
def worker(new_worker: Callable[..., Worker]) -> Worker:
    return new_worker()
