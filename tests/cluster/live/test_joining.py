"""Joining a cluster: accepted brokers, refused brokers, and the error messages."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.broker.lifecycle.server import Server, StartupError
from ottla.cluster.controller.controller import Controller
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.store import StoreError
from ottla.metadata.stores.zookeeper import SessionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.testing import Broker, Cluster, ZooKeeper
from tests.cluster.members import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Cluster]) -> Iterator[Cluster]:
    with new_cluster(2, config={"offsets.topic.replication.factor": "3"}) as running:
        yield running


def refused(data: Path, **settings: str) -> str:
    """Return the message of a broker that refuses to start."""
    command = [sys.executable, "-m", "ottla", "start", "--listen", "127.0.0.1:0", "--data", str(data)]
    for key, value in settings.items():
        command += ["--set", f"{key.replace('_', '.')}={value}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    [sentence] = result.stderr.strip().splitlines()
    return sentence


def test_an_id_is_given_once(cluster: Cluster, tmp_path: Path) -> None:
    said = refused(
        tmp_path,
        broker_id="0",
        zookeeper_connect=cluster.zookeeper.connect,
        zookeeper_session_timeout_ms="1000",
    )
    address = f"PLAINTEXT://127.0.0.1:{cluster.ports[0]}"
    assert said == (f"Error: Broker 0 is registered already, at {address}: give this one another broker.id.")


def test_who_has_the_id_of_another_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("untouched", 2, replication_factor=2)
    before = [cluster.partition("untouched", index) for index in range(2)]
    refused(
        tmp_path,
        broker_id="0",
        zookeeper_connect=cluster.zookeeper.connect,
        zookeeper_session_timeout_ms="1000",
    )
    assert [cluster.partition("untouched", index) for index in range(2)] == before


def server(data: Path, broker_id: int, connect: str) -> Server:
    settings = {
        "broker.id": str(broker_id),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(data),
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": "1000",
    }
    return Server(BrokerConfig.embedded(settings))


async def test_a_start_that_fails_leaves_nothing_running(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Controller.start

    def begin_and_fail(controller: Controller) -> None:
        begin(controller)
        raise StoreError("the ensemble is gone")

    monkeypatch.setattr(Controller, "start", begin_and_fail)
    with pytest.raises(StartupError, match="the ensemble is gone"):
        await server(tmp_path, 4, f"{cluster.zookeeper.connect}/fails").start()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, 2)


async def test_nothing_is_led_until_all_lost_sessions_are_made_up_for(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = server(tmp_path, 4, f"{cluster.zookeeper.connect}/twice")
    await running.start()
    try:
        member = running.broker.member
        assert member is not None
        assert member.lease() > 0
        loop = asyncio.get_running_loop()
        known: list[asyncio.Future[None]] = [loop.create_future(), loop.create_future()]
        waiting, sync = list(known), member.feed.sync
        monkeypatch.setattr(member.feed, "sync", lambda: waiting.pop(0) if waiting else sync())
        for _ in known:
            member._session_changed(SessionState.EXPIRED)
        await until(lambda: not waiting)
        known[0].set_result(None)
        await sync()
        assert member.lease() == 0.0
        known[1].set_result(None)
        await until(lambda: member.lease() > 0)
    finally:
        await running.stop()


def test_a_directory_belongs_to_one_cluster(cluster: Cluster, tmp_path: Path) -> None:
    connect = f"{cluster.zookeeper.connect}/elsewhere"
    with joined(cluster.zookeeper, "/here", {"broker.id": "7"}, tmp_path):
        pass
    said = refused(tmp_path, broker_id="7", zookeeper_connect=connect)
    assert f"{tmp_path} belongs to the cluster" in said
    assert said.endswith("correct log.dirs or the cluster's address.")


def test_without_zookeeper_there_is_no_cluster(tmp_path: Path) -> None:
    said = refused(
        tmp_path, broker_id="0", zookeeper_connect="127.0.0.1:1", zookeeper_session_timeout_ms="1000"
    )
    assert said == (
        "Error: ZooKeeper at 127.0.0.1:1 cannot be reached. Start it first (zookeeper-server-start "
        "config/zookeeper.properties), correct zookeeper.connect, or remove it to run one broker without ZooKeeper."
    )


def test_internal_topics_wait_for_enough_brokers(cluster: Cluster) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    [found] = cluster.ask(request, FindCoordinatorResponse).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def joined(zookeeper: ZooKeeper, chroot: str, settings: Mapping[str, str], data: Path) -> Broker:
    return Broker(data=data, config={"zookeeper.connect": zookeeper.connect + chroot, **settings})


def test_a_broker_without_an_id_gets_one_and_keeps_it(cluster: Cluster, tmp_path: Path) -> None:
    chroot = "/of/its/own"
    client = KazooClient(cluster.zookeeper.connect)
    client.start()
    try:
        for _ in range(2):
            with joined(cluster.zookeeper, chroot, {}, tmp_path):
                assert client.get_children(f"{chroot}/brokers/ids") == ["1001"]
        assert "broker.id=1001" in (tmp_path / "meta.properties").read_text()
    finally:
        client.stop()
        client.close()


def test_one_broker_can_be_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    settings = {"broker.id": "3", "offsets.topic.replication.factor": "1"}
    with joined(cluster.zookeeper, "/alone", settings, tmp_path) as broker:
        broker.create_topic("t", 2)
        broker.produce("t", b"kept")
        broker.restart()
        assert [record.value for record in broker.records("t")] == [b"kept"]


def test_a_cluster_that_went_to_kraft_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    client = KazooClient(cluster.zookeeper.connect)
    client.start()
    client.create("/migrated/migration", b"{}", makepath=True)
    said = refused(tmp_path, broker_id="0", zookeeper_connect=f"{cluster.zookeeper.connect}/migrated")
    assert said.startswith("Error: This cluster has moved, or is moving, from ZooKeeper to KRaft")
    assert client.get_children("/migrated") == ["migration"]
    client.stop()
    client.close()


def test_an_authorizer_that_is_not_known_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    said = refused(tmp_path, authorizer_class_name="com.example.Authorizer")
    assert said.startswith("Error: authorizer.class.name is com.example.Authorizer, which is not known here")
