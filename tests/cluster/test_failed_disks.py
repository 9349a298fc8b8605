"""A member of a cluster that starts without one of its disks: nothing takes the place of what is on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from ottla.cluster import elections
from ottla.metadata.cluster_image import NO_LEADER, PartitionImage, TopicImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.testing import Cluster
from tests.cluster.replicated import brokers

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PARTITIONS = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    data = tmp_path / "cluster"
    disks = f"{data / 'broker-0'},{data / 'broker-0-b'}"
    with Cluster(2, broker_config={0: {"log.dirs": disks}}, data=data) as running:
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
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "enable.partition.eof": True}
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


def test_data_on_a_disk_that_is_away_comes_back_with_it(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", PARTITIONS, replication_factor=2)
    cluster.kill(1)
    for partition in range(PARTITIONS):
        cluster.wait_for_isr("t", {0}, partition)
    produce(cluster, "t", b"kept")
    cluster.stop(0)
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
        cluster.wait_for_isr("t", {0}, partition)  # nobody else can bring the data back

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
    produce(cluster, "t", b"more")
    assert read(cluster, "t", lost) == {each: [b"kept", b"more"] for each in lost}


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
