"""A broker that ran without ZooKeeper joins an empty ensemble and keeps topics, settings, offsets and users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient

from ottla.broker.lifecycle import embedded_metadata
from ottla.broker.lifecycle.server import StartupError
from ottla.metadata.stores.zookeeper import ZooKeeperStore
from ottla.testing import Broker, ZooKeeper

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SETTINGS = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}


@pytest.fixture
def ensemble(shared_zookeeper: ZooKeeper) -> ZooKeeper:
    """An empty path of a real ZooKeeper."""
    empty = shared_zookeeper.chroot()
    client = KazooClient(shared_zookeeper.connect)
    client.start()
    client.create(empty.path)
    client.stop()
    client.close()
    return empty


@pytest.fixture
def client(ensemble: ZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(ensemble.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def fill(data: Path) -> bytes:
    """Run a broker without ZooKeeper, and return the id of its topic."""
    with Broker(data=data, config={**SETTINGS, "broker.id": "0"}) as broker:
        broker.create_topic("kept", 2, config={"retention.ms": "12345"})
        broker.create_topic("deleted")
        broker.delete_topic("deleted")
        broker.produce("kept", b"one")
        admin = AdminClient(broker.client_config())
        upsertion = UserScramCredentialUpsertion(
            "ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret"
        )
        admin.alter_user_scram_credentials([upsertion])["ann"].result()
        changed = ConfigResource(ResourceType.BROKER, "0")
        changed.add_incremental_config(
            ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
        )
        admin.incremental_alter_configs([changed])[changed].result()
        consumer = Consumer({**broker.client_config(), "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("kept", 0, 1)], asynchronous=False)
        consumer.close()
        return broker.topic_id("kept")


def joining(data: Path, ensemble: ZooKeeper, **settings: str) -> Broker:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return Broker(data=data, config={**SETTINGS, **given, "zookeeper.connect": ensemble.connect})


def committed(broker: Broker) -> int:
    consumer = Consumer({**broker.client_config(), "group.id": "g"})
    [found] = consumer.committed([TopicPartition("kept", 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def test_everything_moves_to_an_empty_ensemble(
    ensemble: ZooKeeper, client: KazooClient, tmp_path: Path
) -> None:
    topic_id = fill(tmp_path)
    with joining(tmp_path, ensemble, broker_id="0") as broker:
        assert broker.topic_id("kept") == topic_id
        assert [record.value for record in broker.records("kept")] == [b"one"]
        assert committed(broker) == 1
        admin = AdminClient(broker.client_config())
        assert set(admin.list_topics(timeout=30).topics) == {"kept", "__consumer_offsets"}
        resource = ConfigResource(ResourceType.TOPIC, "kept")
        assert admin.describe_configs([resource])[resource].result()["retention.ms"].value == "12345"
        resource = ConfigResource(ResourceType.BROKER, "0")
        assert admin.describe_configs([resource])[resource].result()["log.cleaner.threads"].value == "2"
        assert list(admin.describe_user_scram_credentials().result()) == ["ann"]
        assert client.get_children("/brokers/ids") == ["0"]
        broker.produce("kept", b"two")
        broker.restart()
        assert [record.value for record in broker.records("kept")] == [b"one", b"two"]
    assert not (tmp_path / "ottla-metadata.db").exists()
    assert (tmp_path / "ottla-metadata.db.moved").exists()


def test_a_move_that_was_interrupted_is_completed(
    ensemble: ZooKeeper, client: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    batches = 0
    original: Any = ZooKeeperStore.multi

    async def stop_after_two(store: Any, operations: Any) -> Any:
        nonlocal batches
        batches += 1
        if batches > 2:
            raise OSError("power is gone")
        return await original(store, operations)

    with monkeypatch.context() as patched:
        patched.setattr(embedded_metadata, "_BATCH", 5)
        patched.setattr(ZooKeeperStore, "multi", stop_after_two)
        with pytest.raises(OSError, match="power is gone"):
            joining(tmp_path, ensemble, broker_id="0").start()
    assert client.exists("/cluster/id")
    with joining(tmp_path, ensemble, broker_id="0") as broker:
        assert [record.value for record in broker.records("kept")] == [b"one"]
        assert committed(broker) == 1


def test_a_generated_id_is_not_given_twice(ensemble: ZooKeeper, client: KazooClient, tmp_path: Path) -> None:
    with Broker(data=tmp_path / "first", config={"broker.id": "-1"}):
        pass
    with joining(tmp_path / "first", ensemble, broker_id="-1"), joining(tmp_path / "second", ensemble):
        assert sorted(client.get_children("/brokers/ids")) == ["1001", "1002"]


def test_an_ensemble_of_another_cluster_is_refused(ensemble: ZooKeeper, tmp_path: Path) -> None:
    fill(tmp_path / "mine")
    with joining(tmp_path / "other", ensemble, broker_id="1"):
        pass
    with pytest.raises(
        StartupError, match=r"which ran without ZooKeeper, but ZooKeeper at .* Name an empty path"
    ):
        joining(tmp_path / "mine", ensemble, broker_id="0").start()
    with Broker(data=tmp_path / "mine", config=SETTINGS) as broker:  # nothing has changed
        assert [record.value for record in broker.records("kept")] == [b"one"]
