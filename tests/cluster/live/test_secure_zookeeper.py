"""Promise: a cluster runs on a ZooKeeper that requires TLS and a login, and no other user can change its znodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kazoo.exceptions import NoAuthError

from ottla.testing import Cluster, ZooKeeper
from ottla.zookeeper import ZooKeeperClient, zookeeper_security
from tests.zookeeper_keys import ZooKeeperKeys, zookeeper_keys

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> ZooKeeperKeys:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    return zookeeper_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def cluster(keys: ZooKeeperKeys) -> Iterator[Cluster]:
    security = keys.server()
    config = {
        "zookeeper.set.acl": "true",
        "zookeeper.session.timeout.ms": "4000",
        **security.broker_settings(trust_store=keys.ca),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in security.broker_environment(keys.directory / "brokers.jaas", "kafka").items():
            patch.setenv(name, value)
        with (
            ZooKeeper(security=security) as zookeeper,
            Cluster(3, zookeeper=zookeeper, config=config) as made,
        ):
            yield made


def stranger(cluster: Cluster, keys: ZooKeeperKeys) -> ZooKeeperClient:
    """Return a client with another login."""
    security = keys.server()
    return ZooKeeperClient(
        cluster.zookeeper.connect,
        security=zookeeper_security(
            dict(security.broker_settings(trust_store=keys.ca)),
            security.broker_environment(keys.directory / "other.jaas", "other"),
        ),
    )


def test_brokers_come_and_go_and_nothing_is_lost(cluster: Cluster) -> None:
    cluster.create_topic("t", 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    lost: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            lost.append(error)

    for round_ in range(3):
        for number in range(100):
            producer.produce("t", f"{round_}-{number}", on_delivery=delivered)
        if round_ == 0:
            cluster.kill(cluster.controller())
        elif round_ == 1:
            [gone] = set(cluster.ports) - set(cluster.running())
            cluster.restart(gone)
    assert producer.flush(60) == 0
    assert not lost
    for partition in range(3):
        cluster.wait_for_isr("t", cluster.ports, partition)


def test_a_connection_that_breaks_is_made_again(cluster: Cluster) -> None:
    """Sessions survive a server's restart, and brokers log in again."""
    cluster.zookeeper.kill()
    cluster.zookeeper.restart()
    cluster.create_topic("after", 1)
    assert cluster.leader("after") in cluster.ports


def test_all_nodes_belong_to_the_brokers(cluster: Cluster, keys: ZooKeeperKeys) -> None:
    client = stranger(cluster, keys)
    client.start(timeout=30)
    try:
        seen, hidden = [], []

        def walk(path: str) -> None:
            try:
                acls = {(acl.id.scheme, acl.id.id) for acl in client.get_acls(path)[0]}
                children = client.get_children(path)
            except NoAuthError:
                hidden.append(path)
                return
            if path != "/":
                seen.append(path)
                expected = {("sasl", "kafka"), ("world", "anyone")}
                assert acls == ({("world", "anyone")} if path == "/consumers" else expected), path
                if path != "/consumers":
                    with pytest.raises(NoAuthError):
                        client.set(path, b"mine")
                    with pytest.raises(NoAuthError):
                        client.create(f"{path}/mine")
            for child in children:
                walk(f"{path.rstrip('/')}/{child}")

        for child in client.get_children("/"):
            if child != "zookeeper":
                walk(f"/{child}")
        assert {"/ottla", "/ottla/changes", "/brokers/ids/0", "/brokers/topics/t", "/consumers"} <= set(seen)
        assert {"/config/users", "/config/brokers", "/delegation_token/tokens"} == set(hidden)
    finally:
        client.stop()
        client.close()
