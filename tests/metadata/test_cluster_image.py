"""The cluster image, and loading it from a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ottla.metadata import nodes
from ottla.metadata.cluster_image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.metadata.nodes import BrokerRegistration, Endpoint, PartitionState, TopicAssignment
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import Create, Node, Operation, Stat, ensure_paths
from ottla.protocol.errors import ErrorCode, KafkaError

ID_A, ID_B = bytes([1]) * 16, bytes([2]) * 16


def partition(topic: str, index: int, leader: int = 0, leader_epoch: int = 0) -> PartitionImage:
    return PartitionImage(topic, index, leader, leader_epoch, (0, 1), (0, 1), 0)


def topic(name: str, topic_id: bytes, count: int = 2) -> TopicImage:
    return TopicImage(name, topic_id, {index: partition(name, index) for index in range(count)})


class CountingStore(EmbeddedStore):
    """Counts the calls that are round trips in ZooKeeper."""

    reads = 0

    async def get(self, path: str) -> Node:
        self.reads += 1
        return await super().get(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        self.reads += 1
        return await super().get_many(paths)

    async def children(self, path: str) -> list[str]:
        self.reads += 1
        return await super().children(path)

    async def exists(self, path: str) -> Stat | None:
        self.reads += 1
        return await super().exists(path)


class TestImage:
    def test_a_topic_is_found_by_name_by_id_and_by_partition(self) -> None:
        image = ClusterImage()
        image.put_topic(topic("a", ID_A))
        assert image.topics["a"] is image.topics_by_id[ID_A]
        assert image.partitions["a", 1] is image.topics["a"].partitions[1]

    def test_a_topic_that_goes_takes_everything_along(self) -> None:
        image = ClusterImage()
        image.put_topic(topic("a", ID_A))
        image.remove_topic("a")
        image.remove_topic("a")
        assert (image.topics, image.topics_by_id, image.partitions) == ({}, {}, {})
        assert image.colliding_topic("a") is None

    def test_a_topic_created_anew_is_not_found_by_its_old_id(self) -> None:
        image = ClusterImage()
        image.put_topic(topic("a", ID_A, 3))
        image.put_topic(topic("a", ID_B, 1))
        assert list(image.topics_by_id) == [ID_B]
        assert list(image.partitions) == [("a", 0)]

    def test_a_partition_changes_without_changing_what_others_hold(self) -> None:
        image = ClusterImage()
        image.put_topic(topic("a", ID_A))
        held = image.topics["a"]
        image.put_partition(partition("a", 0, leader=1, leader_epoch=1))
        assert held.partitions[0].leader == 0
        assert image.topics["a"].partitions[0].leader == 1
        assert image.topics_by_id[ID_A].partitions[0] is image.partitions["a", 0]

    def test_overrides_replace_overrides(self) -> None:
        image = ClusterImage()
        image.put_topic(topic("a", ID_A))
        image.set_topic_configs("a", {"retention.ms": "5"})
        assert image.topics["a"].configs == {"retention.ms": "5"}
        image.set_broker_configs(None, {"log.retention.ms": "5"})
        assert image.broker_configs == {None: {"log.retention.ms": "5"}}

    def test_every_change_is_seen_by_the_version(self) -> None:
        image = ClusterImage()
        changes: list[Callable[[], None]] = [
            lambda: image.put_broker(BrokerImage(0, {})),
            lambda: image.set_controller(0, 1),
            lambda: image.put_topic(topic("a", ID_A)),
            lambda: image.put_partition(partition("a", 2)),
            lambda: image.set_topic_configs("a", {}),
            lambda: image.set_broker_configs(0, {}),
            lambda: image.remove_topic("a"),
            lambda: image.remove_broker(0),
        ]
        for change in changes:
            before = image.version
            change()
            assert image.version > before
        before = image.version
        image.remove_broker(0)
        assert image.version == before

    def test_names_that_differ_in_dots_and_underscores_collide(self) -> None:
        image = ClusterImage()
        image.put_topic(topic("a.b", ID_A))
        assert image.colliding_topic("a_b") == "a.b"
        assert image.colliding_topic("a.b") is None
        with pytest.raises(KafkaError) as collides:
            image.check_collision("a_b")
        assert collides.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert collides.value.message == "Topic 'a_b' collides with existing topic: a.b"
        with pytest.raises(KafkaError) as exists:
            image.check_collision("a.b")
        assert exists.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert exists.value.message == "Topic 'a.b' already exists."
        image.check_collision("c")

    def test_kafkas_own_topics_are_internal(self) -> None:
        assert topic("__consumer_offsets", ID_A).is_internal
        assert not topic("__other", ID_A).is_internal


def topic_operations(name: str, topic_id: bytes, count: int) -> list[Operation]:
    assignment = TopicAssignment(dict.fromkeys(range(count), (0, 1)), topic_id)
    operations: list[Operation] = [
        Create(nodes.topic_path(name), nodes.encode_topic(assignment)),
        Create(nodes.partitions_path(name)),
        Create(nodes.topic_config_path(name), nodes.encode_config({"retention.ms": "7"})),
    ]
    state = nodes.encode_partition_state(PartitionState(1, 4, (1, 0), 2))
    for index in range(count):
        operations.append(Create(nodes.partition_path(name, index)))
        operations.append(Create(nodes.partition_state_path(name, index), state))
    return operations


class TestLoading:
    async def test_an_empty_store_is_an_empty_cluster(self, tmp_path: Path) -> None:
        store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
        image = await ClusterImage.load(store)
        assert (image.cluster_id, image.controller_id, image.topics) == ("", -1, {})
        await store.close()

    async def test_everything_in_the_store_is_in_the_image(self, tmp_path: Path) -> None:
        store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
        await ensure_paths(store, [*nodes.PERSISTENT_PATHS, "/cluster"])
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092)
        await store.multi(
            [
                Create(nodes.CLUSTER_ID, nodes.encode_cluster_id("cluster")),
                Create(nodes.CONTROLLER, nodes.encode_controller(0, 1), ephemeral=True),
                Create(nodes.CONTROLLER_EPOCH, nodes.encode_controller_epoch(2)),
                Create(
                    nodes.broker_path(0), nodes.encode_broker(BrokerRegistration(0, (endpoint,), "r")), True
                ),
                Create(nodes.broker_config_path(None), nodes.encode_config({"log.retention.ms": "5"})),
                Create(nodes.broker_config_path(0), nodes.encode_config({"max.connections": "9"})),
                *topic_operations("t", ID_A, 2),
                Create(nodes.delete_topic_path("t")),
            ]
        )
        await store.set(
            nodes.partition_state_path("t", 1), nodes.encode_partition_state(PartitionState(0, 5, (0,), 2))
        )
        await store.create(nodes.topic_path("no-state"), nodes.encode_topic(TopicAssignment({0: (0,)}, ID_B)))

        image = await ClusterImage.load(store)
        assert (image.cluster_id, image.controller_id, image.controller_epoch) == ("cluster", 0, 2)
        stat = await store.exists(nodes.broker_path(0))
        assert stat is not None
        assert image.brokers == {0: BrokerImage(0, {"PLAINTEXT": endpoint}, "r", stat.czxid)}
        assert image.broker_configs == {None: {"log.retention.ms": "5"}, 0: {"max.connections": "9"}}
        assert image.partitions["t", 0] == PartitionImage("t", 0, 1, 4, (0, 1), (1, 0), 0)
        assert image.partitions["t", 1] == PartitionImage("t", 1, 0, 5, (0, 1), (0,), 1)
        assert image.topics["t"].configs == {"retention.ms": "7"}
        assert image.topics_by_id[ID_A].name == "t"
        assert image.partitions["no-state", 0].leader == -1
        assert image.deleting == {"t"}
        await store.close()

    async def test_thousands_of_partitions_load_in_as_many_round_trips_as_one(self, tmp_path: Path) -> None:
        store = CountingStore(tmp_path / "metadata.db", sync=False)
        await ensure_paths(store, nodes.PERSISTENT_PATHS)
        await store.multi(topic_operations("t", nodes.random_uuid(), 1))
        store.reads = 0
        await ClusterImage.load(store)
        for_one, store.reads = store.reads, 0
        for index in range(100):
            await store.multi(topic_operations(f"t{index}", nodes.random_uuid(), 50))
        image = await ClusterImage.load(store)
        assert len(image.partitions) == 5001
        assert store.reads == for_one
        await store.close()
