"""A clustered broker starts without one of its disks: nothing replaces the missing replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ottla.broker.lifecycle.failed_disks import irreplaceable, lost_logs, out_of_reach
from ottla.cluster import elections
from ottla.cluster.image.offline_replicas import (
    OFFLINE,
    Unusable,
    decode_unusable,
    read_offline_replicas,
    write_unusable,
)
from ottla.log.log_directory import LogDirectory
from ottla.metadata import nodes
from ottla.metadata.cluster_image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import ensure_paths
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.testing import Cluster
from tests.cluster.replicated import brokers
from tests.cluster.tools import kafka

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PARTITIONS = 4


@pytest.fixture
def cluster(new_cluster: Callable[..., Cluster], tmp_path: Path) -> Iterator[Cluster]:
    data = tmp_path / "cluster"
    disks = f"{data / 'broker-0'},{data / 'broker-0-b'}"
    config = {"zookeeper.session.timeout.ms": "6000"}
    with new_cluster(2, config=config, broker_config={0: {"log.dirs": disks}}, data=data) as running:
        yield running


def produce(cluster: Cluster, topic: str, value: bytes) -> None:
    errors: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for partition in range(PARTITIONS):
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None] * PARTITIONS


def read(cluster: Cluster, topic: str, partitions: list[int]) -> dict[int, list[bytes]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "enable.partition.eof": True,
            "enable.auto.commit": False,  # a single broker cannot store group offsets
        }
    )
    found: dict[int, list[bytes]] = {partition: [] for partition in partitions}
    left = set(partitions)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in partitions])
        while left:
            message = consumer.poll(30)
            assert message is not None, "nothing came"
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
            else:
                found[message.partition()].append(message.value())
    finally:
        consumer.close()
    return found


def lose_second_disk(cluster: Cluster, aside: Path) -> list[int]:
    """Remove the second directory of the stopped broker 0 and return the partitions it held."""
    second = cluster.directory(0).with_name("broker-0-b")
    lost = sorted(int(path.name.removeprefix("t-")) for path in second.glob("t-?"))
    second.rename(aside)
    assert 0 < len(lost) < PARTITIONS
    return lost


def wait_until_shown(cluster: Cluster, partition: int, *, leader: int | None, offline: set[int]) -> None:
    """Wait until every running broker reports it."""

    def shown() -> bool:
        views = [cluster.partition("t", partition, broker=each) for each in cluster.running()]
        return all(
            view is not None and set(view.offline) == offline and leader in (None, view.leader)
            for view in views
        )

    cluster.wait_until(shown, f"t-{partition} is led by {leader} and offline on {offline}")


def leave_the_last_in_sync(cluster: Cluster) -> None:
    """Leave the latest records on broker 0 alone, and stop it too."""
    cluster.create_topic("t", PARTITIONS, replication_factor=2)
    cluster.kill(1)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0}, partition)
    produce(cluster, "t", b"kept")
    cluster.stop(0)


def test_data_on_a_disk_that_is_away_comes_back_with_it(cluster: Cluster, tmp_path: Path) -> None:
    leave_the_last_in_sync(cluster)
    first, second = cluster.directory(0), cluster.directory(0).with_name("broker-0-b")
    lost = sorted(int(path.name.removeprefix("t-")) for path in second.glob("t-?"))
    there = [partition for partition in range(PARTITIONS) if partition not in lost]
    assert lost
    assert there
    second.rename(tmp_path / "elsewhere")
    second.touch()

    cluster.restart(0)
    cluster.restart(1)
    for partition in there:
        cluster.wait_for_isr("t", {0, 1}, partition)
    assert read(cluster, "t", there) == {each: [b"kept"] for each in there}
    assert not [path for partition in lost for path in first.glob(f"t-{partition}")]
    for partition in lost:
        cluster.wait_for_isr("t", {0}, partition)  # no other broker can restore the data
        wait_until_shown(cluster, partition, leader=NO_LEADER, offline={0})
        epoch = cluster.partition("t", partition).leader_epoch
        cluster.restart(1)
        assert cluster.partition("t", partition).leader_epoch == epoch, "it is elected again and again"

    cluster.stop(0)
    second.unlink()
    (tmp_path / "elsewhere").rename(second)
    cluster.restart(0)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0, 1}, partition)
    assert read(cluster, "t", list(range(PARTITIONS))) == {each: [b"kept"] for each in range(PARTITIONS)}


def test_others_in_sync_lead_what_a_broker_has_lost(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", PARTITIONS, replication_factor=2)
    produce(cluster, "t", b"kept")
    cluster.stop(0)
    second = cluster.directory(0).with_name("broker-0-b")
    lost = sorted(int(path.name.removeprefix("t-")) for path in second.glob("t-?"))
    second.rename(tmp_path / "elsewhere")
    second.touch()
    cluster.restart(0)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {1} if partition in lost else {0, 1}, partition)
        wait_until_shown(cluster, partition, leader=None, offline={0} if partition in lost else set())
    produce(cluster, "t", b"more")
    assert read(cluster, "t", lost) == {each: [b"kept", b"more"] for each in lost}


def test_a_new_disk_in_the_place_of_a_failed_one_is_filled_by_the_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", PARTITIONS, replication_factor=2)
    produce(cluster, "t", b"kept")
    cluster.stop(0)
    lost = lose_second_disk(cluster, tmp_path / "broken")
    cluster.restart(0)  # creates the missing directory: a new disk
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0, 1}, partition)
        wait_until_shown(cluster, partition, leader=None, offline=set())
    cluster.stop(1)
    assert read(cluster, "t", lost) == {each: [b"kept"] for each in lost}


def test_a_new_disk_does_not_lead_where_others_in_sync_are_away(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", PARTITIONS, replication_factor=2)
    produce(cluster, "t", b"kept")
    cluster.kill(1)
    cluster.kill(0)  # both are in the ISR, according to the stored state
    lost = lose_second_disk(cluster, tmp_path / "broken")
    cluster.restart(0)
    cluster.restart(1)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0, 1}, partition)
    assert read(cluster, "t", lost) == {each: [b"kept"] for each in lost}


def test_what_only_the_old_disk_had_is_not_replaced_by_an_empty_log(cluster: Cluster, tmp_path: Path) -> None:
    leave_the_last_in_sync(cluster)
    lost = lose_second_disk(cluster, tmp_path / "broken")
    for _ in range(2):  # the disk is new only once
        cluster.restart(0)
        cluster.restart(1)
        for partition in lost:
            wait_until_shown(cluster, partition, leader=NO_LEADER, offline={0})
    assert "The logs of t-" in cluster.log(0).read_text()
    cluster.stop(0)
    second = cluster.directory(0).with_name("broker-0-b")
    second.rename(tmp_path / "new")
    (tmp_path / "broken").rename(second)
    cluster.restart(0)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0, 1}, partition)
    assert read(cluster, "t", list(range(PARTITIONS))) == {each: [b"kept"] for each in range(PARTITIONS)}


def test_an_operator_may_go_on_without_what_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    leave_the_last_in_sync(cluster)
    lost = lose_second_disk(cluster, tmp_path / "broken")
    cluster.restart(0)
    for partition in lost:
        wait_until_shown(cluster, partition, leader=NO_LEADER, offline={0, 1})
    setting = "unclean.leader.election.enable=true"
    kafka(
        cluster,
        "configs",
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        "t",
        "--add-config",
        setting,
    )
    cluster.restart(0)
    cluster.restart(1)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0, 1}, partition)
    produce(cluster, "t", b"more")
    assert read(cluster, "t", lost) == {each: [b"more"] for each in lost}


@pytest.mark.parametrize("noticed", [True, False])
def test_a_directory_that_is_not_used_any_more_is_no_reason_to_lead_without_it(
    cluster: Cluster, tmp_path: Path, noticed: bool
) -> None:
    cluster.create_topic("t", PARTITIONS, replication_factor=2)
    produce(cluster, "t", b"kept")
    cluster.kill(1)
    cluster.kill(0)
    lost = lose_second_disk(cluster, tmp_path / "broken")
    if noticed:  # by an earlier start that could not reach the disk
        cluster.directory(0).with_name("broker-0-b").touch()
        cluster.restart(0)
        cluster.stop(0)
    cluster._broker_config[0]["log.dirs"] = str(cluster.directory(0))
    cluster.restart(0)
    cluster.restart(1)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0, 1}, partition)
        wait_until_shown(cluster, partition, leader=None, offline=set())
    assert read(cluster, "t", lost) == {each: [b"kept"] for each in lost}


def test_one_damaged_log_is_offline_and_the_others_of_its_topic_are_not(cluster: Cluster) -> None:
    cluster.create_topic("t", PARTITIONS, replication_factor=2)
    cluster.kill(1)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0}, partition)
    for value in (b"one", b"two", b"three"):
        produce(cluster, "t", value)
    cluster.kill(0)
    [segment] = [
        path
        for directory in (cluster.directory(0), cluster.directory(0).with_name("broker-0-b"))
        for path in directory.glob("t-0/*.log")
    ]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:70] + b"\xff" + whole[71:])  # inside the first of three batches
    cluster.restart(0)
    rest = [partition for partition in range(PARTITIONS) if partition != 0]
    assert read(cluster, "t", rest) == {each: [b"one", b"two", b"three"] for each in rest}
    cluster.kill(0)
    segment.write_bytes(whole)
    cluster.restart(0)
    cluster.wait_for_leader("t")
    assert read(cluster, "t", [0]) == {0: [b"one", b"two", b"three"]}


async def test_a_log_that_is_not_open_yet_is_not_offline(tmp_path: Path) -> None:
    async with brokers(tmp_path, 1) as running:
        broker = running.servers[0].broker
        state = PartitionImage("t", 0, 0, 0, (0,), (0,), 0)
        broker.image.put_topic(TopicImage("t", bytes(16), {0: state}, {}))
        with pytest.raises(KafkaError) as refused:
            broker.replicas.leader("t", 0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.replicas.keep_offline([("t", 0)])
        with pytest.raises(KafkaError) as refused:
            broker.replicas.leader("t", 0)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_who_cannot_reach_its_log_leads_nothing() -> None:
    led = PartitionImage("t", 0, 0, 5, (0, 1), (0, 1), 3)
    assert elections.give_up(led, 0, {1}) == led._replace(leader=1, leader_epoch=6, isr=(1,))
    assert elections.give_up(led, 0, set()) == led._replace(leader=NO_LEADER, leader_epoch=6, isr=(1,))
    followed = led._replace(leader=1)
    assert elections.give_up(followed, 0, {1}) == followed._replace(isr=(1,))


TOPIC = nodes.random_uuid()


def image_of(*partitions: PartitionImage, **configs: str) -> ClusterImage:
    image = ClusterImage("c")
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    image.put_topic(TopicImage("t", TOPIC, {each.partition: each for each in partitions}, settings))
    return image


def test_who_cannot_reach_its_replica_is_not_able() -> None:
    one, other = (PartitionImage("t", index, 0, 5, (0, 1), (0, 1), 3) for index in range(2))
    image = image_of(one, other)
    assert image.able(one, {0, 1}) == {0, 1}
    image.set_offline_replicas({0: frozenset({(TOPIC, 0)}), 1: frozenset({(nodes.random_uuid(), 0)})})
    assert (list(image.able(one, {0, 1})), image.able(other, {0, 1})) == ([1], {0, 1})


async def test_a_broker_writes_down_what_it_cannot_use_and_rings_as_kafka_does(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "store")
    await ensure_paths(store, (*nodes.PERSISTENT_PATHS, OFFLINE))
    unusable = Unusable(frozenset({"/disk"}), frozenset({(TOPIC, 0), (TOPIC, 2)}))
    assert await write_unusable(store, 4, unusable)
    assert not await write_unusable(store, 4, unusable)
    assert await read_offline_replicas(store) == {4: unusable.replicas}
    assert decode_unusable(4, (await store.get(f"{OFFLINE}/4")).data) == unusable
    [bell] = await store.children(nodes.LOG_DIR_EVENT_NOTIFICATION)
    assert bell == "log_dir_event_0000000000"
    told = (await store.get(f"{nodes.LOG_DIR_EVENT_NOTIFICATION}/{bell}")).data
    assert told == b'{"version":1,"broker":4,"event":1}'
    assert await write_unusable(store, 4, Unusable())
    assert await read_offline_replicas(store) == {}
    await store.create(f"{OFFLINE}/5", b"from another version")
    assert await read_offline_replicas(store) == {}
    await store.close()


def test_missing_logs_are_told_apart(tmp_path: Path) -> None:
    alone = PartitionImage("t", 0, 0, 5, (0, 1), (0,), 3)
    shared = PartitionImage("t", 1, 1, 5, (0, 1), (0, 1), 3)
    image = image_of(alone, shared, PartitionImage("t", 2, 1, 5, (1, 2), (1, 2), 3))
    both = [("t", 0), ("t", 1)]
    here = LogDirectory.open(tmp_path)
    try:
        gone = LogDirectory.unusable(tmp_path / "gone")
        assert out_of_reach([here, gone], image, 0) == both
        assert lost_logs([here, gone], image, 0, disks_changed=False) == []
        assert out_of_reach([here], image, 0) == []
        assert lost_logs([here], image, 0, disks_changed=False) == [], "they were never made"
        assert lost_logs([here], image, 0, disks_changed=True) == both
        image.set_offline_replicas({0: frozenset({(TOPIC, 1)})})
        assert lost_logs([here], image, 0, disks_changed=False) == [("t", 1)]
    finally:
        here.abandon()
    config = BrokerConfig.embedded({})
    assert irreplaceable(both, image, config, 0) == [("t", 0)]
    image = image_of(alone, shared, unclean_leader_election_enable="true")
    assert irreplaceable(both, image, config, 0) == []
