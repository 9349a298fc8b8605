"""A cluster for tests: brokers in processes of their own, coordinated by a real ZooKeeper."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.protocol.codec import Request, Response
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.testing.broker import DEFAULTS
from ottla.testing.zookeeper import ZooKeeper, free_ports

R = TypeVar("R", bound=Response)

_DEADLINE = 30.0


class PartitionView(NamedTuple):
    """A partition as one broker describes it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Cluster:
    """Start it with `with`, reach it at `bootstrap_servers`. Brokers are counted from 0.

    `config` takes the keys of server.properties, for all brokers; `broker_config` those of single ones. Data and ports
    outlive a broker: `restart` brings it back with both.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        config: Mapping[str, str] | None = None,
        broker_config: Mapping[int, Mapping[str, str]] | None = None,
        zookeeper: ZooKeeper | None = None,
        data: str | Path | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="ottla-cluster-") if data is None else None
        self.data = Path(self._temporary.name if self._temporary is not None else str(data))
        self.zookeeper = zookeeper or ZooKeeper()
        self._owns_zookeeper = zookeeper is None
        self.ports = dict(enumerate(free_ports(brokers)))
        few = str(min(3, brokers))
        self._config = {
            **DEFAULTS,
            "offsets.topic.replication.factor": few,
            "transaction.state.log.replication.factor": few,
            "transaction.state.log.min.isr": str(min(2, brokers)),
            "share.coordinator.state.topic.replication.factor": few,
            "share.coordinator.state.topic.min.isr": str(min(2, brokers)),
            **(config or {}),
        }
        self._broker_config = {key: dict(value) for key, value in (broker_config or {}).items()}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    # Life

    def start(self) -> Self:
        try:
            if self._owns_zookeeper:
                self.zookeeper.start()
            for broker_id in self.ports:
                self._launch(broker_id)
            self.wait_for_brokers(self.ports)
        except BaseException:
            self.close()
            raise
        return self

    def _launch(self, broker_id: int) -> None:
        settings = {
            **self._config,
            **self._broker_config.get(broker_id, {}),
            "broker.id": str(broker_id),
            "zookeeper.connect": self.zookeeper.connect,
        }
        command = [sys.executable, "-m", "ottla", "start", "--quiet", "--listen", self._address(broker_id)]
        command += ["--data", str(self.directory(broker_id))]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log(broker_id).open("ab") as log:
            self._processes[broker_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def close(self) -> None:
        """End everything at once."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()
        if self._owns_zookeeper:
            self.zookeeper.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Facts

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(map(self._address, self.ports))

    def _address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self.ports[broker_id]}"

    def directory(self, broker_id: int) -> Path:
        return self.data / f"broker-{broker_id}"

    def log(self, broker_id: int) -> Path:
        """What the broker says, of all its lives."""
        return self.data / f"broker-{broker_id}.log"

    def pid(self, broker_id: int) -> int:
        return self._processes[broker_id].pid

    def running(self) -> list[int]:
        return [broker_id for broker_id, process in self._processes.items() if process.poll() is None]

    # Faults

    def kill(self, broker_id: int) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        self._processes[broker_id].kill()
        self._processes[broker_id].wait()

    def stop(self, broker_id: int, seconds: float = _DEADLINE) -> int:
        """SIGTERM: it hands over what it leads, and goes. Returns its exit code."""
        self._processes[broker_id].send_signal(signal.SIGTERM)
        return self._processes[broker_id].wait(timeout=seconds)

    def pause(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGCONT)

    def restart(self, broker_id: int) -> None:
        """Start a broker again, after `kill` or `stop`, and wait until the others know of it."""
        if self._processes[broker_id].poll() is None:
            self.stop(broker_id)
        self._launch(broker_id)
        self.wait_for_brokers([broker_id])

    # Looking

    def metadata(self, topics: Iterable[str] | None = None, *, broker: int | None = None) -> MetadataResponse:
        """What a broker, or the first that answers, tells of the cluster."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        return self.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse, broker=broker
        )

    def ask(self, request: Request, answer: type[R], *, broker: int | None = None) -> R:
        """One request on a connection of its own."""
        failure: ClientError | None = None
        for broker_id in self.running() if broker is None else [broker]:
            settings = Settings(client_id="ottla-testing", request_timeout=60.0)
            try:
                with Connection(settings, "127.0.0.1", self.ports[broker_id]) as connection:
                    return connection.request(request, answer)
            except ClientError as error:
                failure = error
        raise failure or RuntimeError("no broker is running")

    def partition(self, topic: str, partition: int = 0, *, broker: int | None = None) -> PartitionView | None:
        for described in self.metadata([topic], broker=broker).topics:
            for each in described.partitions:
                if each.partition_index == partition:
                    return PartitionView(
                        each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
                    )
        return None

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the leader; -1 while there is none."""
        view = self.partition(topic, partition)
        return -1 if view is None else view.leader

    def controller(self) -> int:
        return self.metadata([]).controller_id

    # Arranging and waiting

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until every running broker knows its leaders."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse)
        [result] = answer.topics
        if result.error_code != ErrorCode.NONE:
            raise RuntimeError(f"topic {name} was not created: {result.error_message}")
        self.wait_until(
            lambda: all(self._is_led(name, partitions, broker) for broker in self.running()),
            f"every broker knows of {name}",
        )

    def _is_led(self, topic: str, partitions: int, broker: int) -> bool:
        described = [
            each
            for found in self.metadata([topic], broker=broker).topics
            for each in found.partitions
            if each.leader_id >= 0
        ]
        return len(described) == partitions

    def wait_for_brokers(self, brokers: Collection[int]) -> None:
        """Until each running broker knows all of these."""

        def known() -> bool:
            for broker_id in brokers:
                code = self._processes[broker_id].poll()
                if code is not None:
                    words = self.log(broker_id).read_text(errors="replace").strip().splitlines()
                    raise RuntimeError(f"broker {broker_id} ended with {code}: {' '.join(words[-3:])}")
            return all(
                set(brokers) <= {each.node_id for each in self.metadata([], broker=asked).brokers}
                for asked in self.running()
            )

        self.wait_until(known, f"brokers {sorted(brokers)} are there")

    def wait_for_isr(
        self, topic: str, isr: Collection[int], partition: int = 0, seconds: float = _DEADLINE
    ) -> None:
        """Until these brokers, and no others, are in sync."""

        def reached() -> bool:
            view = self.partition(topic, partition)
            return view is not None and set(view.isr) == set(isr)

        self.wait_until(reached, f"the ISR of {topic}-{partition} is {sorted(isr)}", seconds)

    def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int | None = None, seconds: float = _DEADLINE
    ) -> int:
        found = -1

        def elected() -> bool:
            nonlocal found
            found = self.leader(topic, partition)
            return found not in (-1, other_than)

        self.wait_until(elected, f"{topic}-{partition} has a leader", seconds)
        return found

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = _DEADLINE) -> None:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(ClientError):
                if condition():
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {seconds:g} seconds it is still not so that {what}")
            time.sleep(0.02)
