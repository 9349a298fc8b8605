"""Three brokers of a kind as one contestant: Ottla with its ZooKeeper, or Apache Kafka with its quorum.

Both run with everything at its default but for the factors, so that a topic without wishes of its own has three
replicas, of which two must have what is acknowledged.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, Self

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars, random_cluster_id
from bench.peers.brokers import Broker, Contestant, OttlaBroker, ottla_command
from bench.rows.metadata import ClusterView, describe, quorum_leader
from ottla.jvm.zookeeper import NoZooKeeper, ZooKeeperServer, jars

SIZE = 3
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Member(Broker, Protocol):
    def kill(self) -> None: ...


class Cluster:
    """A broker to the rows that ask no more; and one whose members can be killed and come back."""

    def __init__(
        self,
        members: dict[int, Member],
        *,
        find_controller: Callable[[str], int],
        zookeeper: ZooKeeperServer | None = None,
        directory: Path | None = None,
    ) -> None:
        self.members = members
        self.zookeeper = zookeeper
        self.directory = directory
        self.startup_seconds = 0.0
        self._find_controller = find_controller

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(member.bootstrap_servers for member in self.members.values())

    @property
    def port(self) -> int:
        return next(iter(self.members.values())).port

    @property
    def log_dir(self) -> Path:
        return next(iter(self.members.values())).log_dir

    @property
    def pid(self) -> int:
        raise RuntimeError("a cluster is more than one process")

    @property
    def pids(self) -> list[int]:
        """Those of the brokers."""
        return [member.pid for member in self.members.values()]

    @property
    def all_pids(self) -> list[int]:
        """Everything that has to run for the cluster to work."""
        if self.zookeeper is None or self.zookeeper.process is None:
            return self.pids
        return [*self.pids, self.zookeeper.process.pid]

    @property
    def running(self) -> bool:
        return all(member.running for member in self.members.values())

    def start(self) -> Self:
        began = time.perf_counter()
        if self.zookeeper is not None:
            self.zookeeper.start()
        try:
            with ThreadPoolExecutor(
                len(self.members)
            ) as threads:  # the members of a quorum wait for each other
                list(threads.map(lambda member: member.start(), self.members.values()))
            self.wait(lambda view: len(view.brokers) == len(self.members), "all brokers know each other")
        except BaseException:
            self.stop()
            raise
        self.startup_seconds = time.perf_counter() - began
        return self

    def stop(self) -> None:
        with ThreadPoolExecutor(len(self.members)) as threads:
            list(threads.map(lambda member: member.stop(), self.members.values()))
        if self.zookeeper is not None:
            self.zookeeper.stop()

    def remove(self) -> None:
        for member in self.members.values():
            member.remove()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    # What happens to members

    def controller(self) -> int:
        return self._find_controller(self.bootstrap_servers)

    def survivors(self, victim: int) -> str:
        """The bootstrap servers without this one."""
        others = (member for broker_id, member in self.members.items() if broker_id != victim)
        return ",".join(member.bootstrap_servers for member in others)

    def bring_back(self, broker_id: int, topic: str) -> None:
        """Start a member again and wait until it is in sync with everything of this topic."""
        self.members[broker_id].start()

        def in_sync(view: ClusterView) -> bool:
            isrs = [partition.isr for partition in view.partitions.values()]
            return bool(isrs) and all(broker_id in isr for isr in isrs)

        self.wait(in_sync, f"broker {broker_id} is in sync", topic, timeout=300)  # of thousands of partitions

    def wait(
        self,
        condition: Callable[[ClusterView], bool],
        what: str,
        topic: str | None = None,
        *,
        timeout: float = 120,
    ) -> None:
        """Until every broker describes the cluster so."""
        deadline = time.monotonic() + timeout
        for member in self.members.values():
            while not condition(describe(member.bootstrap_servers, topic)):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"after {timeout:.0f} s it is still not so that {what}")
                time.sleep(0.02)


def ottla_cluster(command: Sequence[str]) -> Cluster:
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-zookeeper-"))
    zookeeper = ZooKeeperServer(directory, free_port())
    members: dict[int, Member] = {}
    for broker_id in range(1, SIZE + 1):
        settings = {**SETTINGS, "broker.id": str(broker_id), "zookeeper.connect": zookeeper.address}
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        members[broker_id] = OttlaBroker(command, options=options)
    return Cluster(
        members,
        find_controller=lambda bootstrap: describe(bootstrap).controller,
        zookeeper=zookeeper,
        directory=directory,
    )


def kafka_cluster() -> Cluster:
    """Three nodes that are broker and controller each, as many as Ottla has processes without ZooKeeper."""
    cluster_id = random_cluster_id()
    quorum = {node: free_port() for node in range(1, SIZE + 1)}
    members: dict[int, Member] = {}
    for node, controller_port in quorum.items():
        port = free_port()
        config = {
            **SETTINGS,
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{at}" for each, at in quorum.items()),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        }
        members[node] = ApacheKafka(port=port, config=config, cluster_id=cluster_id)
    return Cluster(members, find_controller=quorum_leader)


def ottla(chosen: str | None = None) -> Contestant:
    command = ottla_command(chosen)
    try:
        jars()
    except NoZooKeeper as missing:
        raise Unavailable(str(missing)) from None
    return Contestant("Ottla", lambda: ottla_cluster(command))


def apache_kafka() -> Contestant:
    kafka_jars()
    return Contestant("Apache Kafka", kafka_cluster)
