"""A cluster for tests: brokers in separate processes, coordinated by a real ZooKeeper."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeVar

from ottla.client.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.protocol.codec import Request, Response
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.python_process import python_command, python_environment, start_child
from ottla.security.acls import Acl
from ottla.testing.broker import DEFAULTS
from ottla.testing.cluster_network import lay_network
from ottla.testing.network import Network
from ottla.testing.ports import ReservedPorts
from ottla.testing.security import ADMIN, ClusterSecurity
from ottla.testing.tampering import Tampering
from ottla.testing.zookeeper import ZooKeeper

R = TypeVar("R", bound=Response)
T = TypeVar("T")

_DEADLINE = 60.0


class PartitionView(NamedTuple):
    """A partition as described by one broker."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


class Cluster:
    """A cluster: start it with `with`, connect to `bootstrap_servers`. Broker ids start at 0.

    `config` takes the keys of server.properties for all brokers, `broker_config` for single ones. `restart` brings a
    broker back with its data and port. Without `zookeeper` the cluster starts its own.

    With `faults` brokers reach each other and ZooKeeper through relays in this process, and their clocks and disks can
    be tampered with: `cut`, `skew`, `fill_disk` and `fail_disk` need it. Clients connect directly.

    With `security="SASL_SSL"` clients and brokers speak TLS and log in. `users` maps names to passwords, besides
    the superuser `admin`; `acls` grants rights to the others. `client_config` returns the client settings.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        config: Mapping[str, str] | None = None,
        broker_config: Mapping[int, Mapping[str, str]] | None = None,
        zookeeper: ZooKeeper | None = None,
        data: str | Path | None = None,
        faults: bool = False,
        log_level: str = "warning",
        security: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[Acl] | None = None,
    ) -> None:
        self._security = None if security is None else ClusterSecurity(security, users, acls)
        self._temporary = tempfile.TemporaryDirectory(prefix="ottla-cluster-") if data is None else None
        self.data = Path(self._temporary.name if self._temporary is not None else str(data))
        self.zookeeper = zookeeper or ZooKeeper()
        self._owns_zookeeper = zookeeper is None
        self._reserved = [ReservedPorts(brokers)]
        self.ports = dict(enumerate(self._reserved[0].numbers))
        few = str(min(3, brokers))
        self._config = {
            **DEFAULTS,
            # Tests may use short sessions, but an ensemble still needs time to elect a leader.
            "zookeeper.connection.timeout.ms": "60000",
            "offsets.topic.replication.factor": few,
            "transaction.state.log.replication.factor": few,
            "transaction.state.log.min.isr": str(min(2, brokers)),
            "share.coordinator.state.topic.replication.factor": few,
            "share.coordinator.state.topic.min.isr": str(min(2, brokers)),
            **(config or {}),
        }
        self._broker_config = {key: dict(value) for key, value in (broker_config or {}).items()}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._faults = faults
        self._log_level = log_level
        self._network: Network | None = None
        self._network_config: dict[int, dict[str, str]] = {}
        self._tampering: dict[int, Tampering] = {}

    # Lifecycle

    def start(self) -> Self:
        try:
            if self._owns_zookeeper:
                self.zookeeper.start()
            if self._faults:
                self._network = Network()
                self._reserved.append(ReservedPorts(len(self.ports) ** 2))
                self._network_config = lay_network(
                    self._network,
                    self.ports,
                    self._reserved[-1].numbers,
                    self.zookeeper,
                    "PLAINTEXT" if self._security is None else self._security.protocol,
                )
                self._tampering = {
                    each: Tampering(self._tampering_file(each), create=True) for each in self.ports
                }
            for broker_id in self.ports:
                self._launch(broker_id)
            self.wait_for_brokers(self.ports)
            self.wait_until(lambda: self.controller() in self.ports, "there is a controller")
            if self._security is not None:
                self._security.store_acls(self.bootstrap_servers)
        except BaseException:
            self.close()
            raise
        return self

    def _launch(self, broker_id: int) -> None:
        secured = {}
        if self._security is not None:
            secured = self._security.settings(self.data, self.ports[broker_id], list(self.ports))
        settings = {
            **self._config,
            **secured,
            **self._broker_config.get(broker_id, {}),
            "broker.id": str(broker_id),
            "zookeeper.connect": self.zookeeper.connect,
        }
        if self._faults:
            settings |= self._network_config[broker_id]
            program = ["ottla.testing.tampered_broker", str(self._tampering_file(broker_id))]
        else:
            program = ["ottla"]
        command = python_command("-m", *program, "start", "--quiet", "--listen", self._address(broker_id))
        command += ["--data", str(self.directory(broker_id)), "--log-level", self._log_level]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log(broker_id).open("ab") as log:
            self._processes[broker_id] = start_child(command, log, env=python_environment())

    def _tampering_file(self, broker_id: int) -> Path:
        return self.data / f"broker-{broker_id}.tampering"

    def close(self) -> None:
        """End all processes at once."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        if self._owns_zookeeper:
            self.zookeeper.stop()
        if self._network is not None:
            self._network.close()
        for tampering in self._tampering.values():
            tampering.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Properties

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(map(self._address, self.ports))

    def client_config(self, user: str = ADMIN) -> dict[str, str]:
        """Return settings for confluent-kafka."""
        security = {} if self._security is None else self._security.client_config(user)
        return {"bootstrap.servers": self.bootstrap_servers, **security}

    def _client_settings(self) -> Settings:
        settings = Settings.from_properties(self.client_config())
        return replace(settings, client_id="ottla-testing", request_timeout=60.0)

    def _address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self.ports[broker_id]}"

    def directory(self, broker_id: int) -> Path:
        return self.data / f"broker-{broker_id}"

    def log(self, broker_id: int) -> Path:
        """Return the file with the broker's output, including earlier runs."""
        return self.data / f"broker-{broker_id}.log"

    def pid(self, broker_id: int) -> int:
        return self._processes[broker_id].pid

    def running(self) -> list[int]:
        return [broker_id for broker_id, process in self._processes.items() if process.poll() is None]

    # Faults

    def kill(self, broker_id: int) -> None:
        """Send SIGKILL: nothing is flushed, and no other broker is notified."""
        self._processes[broker_id].kill()
        self._processes[broker_id].wait()

    def stop(self, broker_id: int, seconds: float = _DEADLINE) -> int:
        """Send SIGTERM: the broker transfers its leaderships and ends. Return its exit code."""
        self._processes[broker_id].send_signal(signal.SIGTERM)
        return self._processes[broker_id].wait(timeout=seconds)

    def pause(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGCONT)

    def restart(self, broker_id: int) -> None:
        """Start a broker again after `kill` or `stop`, and wait until the other brokers know it."""
        if self._processes[broker_id].poll() is None:
            self.stop(broker_id)
        self._launch(broker_id)
        self.wait_for_brokers([broker_id])

    def cut(
        self,
        brokers: int | Collection[int],
        others: int | Collection[int] | Literal["zookeeper"] | None = None,
        *,
        one_way: bool = False,
        refuse: bool = False,
    ) -> None:
        """Block all traffic between these brokers and `others` (by default all other brokers) until `heal`.

        `others` may be ZOOKEEPER. With `one_way` only traffic from the first to the others is lost. With `refuse`
        connections are broken and refused, as if the process were gone. Clients still reach every broker.
        """
        network = self._with_faults(self._network)
        cut_off = {brokers} if isinstance(brokers, int) else set(brokers)
        rest: set[int | str]
        if others is None:
            rest = {each for each in self.ports if each not in cut_off}
        else:
            rest = {others} if isinstance(others, int | str) else {*others}
        for one in cut_off:
            for other in rest:
                network.cut(one, other, refuse=refuse)
                if not one_way:
                    network.cut(other, one, refuse=refuse)

    def heal(self) -> None:
        self._with_faults(self._network).heal()

    def skew(self, broker_id: int, seconds: float) -> None:
        """Set a broker's wall clock ahead, now and after restarts; 0 corrects it."""
        self._with_faults(self._tampering.get(broker_id)).skew = seconds

    def fill_disk(self, broker_id: int) -> None:
        """Make a broker's disk full until `free_disk`."""
        self._with_faults(self._tampering.get(broker_id)).disk_full = True

    def free_disk(self, broker_id: int) -> None:
        self._with_faults(self._tampering.get(broker_id)).disk_full = False

    def fail_disk(self, broker_id: int, directory: str | Path | None = None) -> None:
        """Make every read and write in a broker's log directory fail until `repair_disk`.

        The default is the first of its `log.dirs`.
        """
        tampering = self._with_faults(self._tampering.get(broker_id))
        path = self.directory(broker_id) if directory is None else directory
        tampering.failing = (*tampering.failing, str(path))

    def repair_disk(self, broker_id: int) -> None:
        """Repair all directories of a broker, which uses them after its next start."""
        self._with_faults(self._tampering.get(broker_id)).failing = ()

    def _with_faults(self, injector: T | None) -> T:
        if injector is None:
            raise RuntimeError("this needs a running cluster that was made with Cluster(faults=True)")
        return injector

    # Observation

    def metadata(self, topics: Iterable[str] | None = None, *, broker: int | None = None) -> MetadataResponse:
        """Return the cluster's metadata from one broker, or from the first that answers."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        return self.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse, broker=broker
        )

    def ask(self, request: Request, answer: type[R], *, broker: int | None = None) -> R:
        """Send one request on a new connection, to one broker or to the first that answers."""
        failure: ClientError | None = None
        for broker_id in self.running() if broker is None else [broker]:
            settings = self._client_settings()
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
                        each.leader_id,
                        each.leader_epoch,
                        tuple(each.replica_nodes),
                        tuple(each.isr_nodes),
                        tuple(each.offline_replicas),
                    )
        return None

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the leader, or -1."""
        view = self.partition(topic, partition)
        return -1 if view is None else view.leader

    def controller(self) -> int:
        return self.metadata([]).controller_id

    # Preparation and waiting

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
        """Wait until each running broker knows all of these."""

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
        """Wait until exactly these brokers are in sync."""

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
                raise TimeoutError(f"after {seconds:g} seconds it is not yet true that {what}")
            time.sleep(0.02)
