"""Topic administration: decisions, refusals, and the state after a crash."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.cluster.controller.controller import Controller
from ottla.cluster.elections import PartitionStates
from ottla.cluster.image.change_notifications import CHANGES
from ottla.cluster.image.image_feed import ImageFeed
from ottla.cluster.topics.topic_admin import TopicAdmin
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import BrokerRegistration, Endpoint
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import ensure_paths
from ottla.protocol.errors import ErrorCode, KafkaError


class FakeReplicas:
    def __init__(self) -> None:
        self.open: dict[str, set[int]] = {}
        self.configs: list[tuple[str, Mapping[str, str]]] = []
        self.failure: Exception | None = None
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def apply(self, topic: TopicImage, changed: Iterable[int]) -> None:
        self.asked.set()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.open.setdefault(topic.name, set()).update(topic.partitions)

    def topic(self, name: str) -> dict[int, SimpleNamespace]:
        return {index: SimpleNamespace(topic_id=nodes.ZERO_UUID) for index in self.open.get(name, ())}

    async def delete_topic(self, name: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.open.pop(name, None)

    def config_changed(self, topic: TopicImage) -> None:
        self.configs.append((topic.name, dict(topic.configs)))


class Cluster:
    """A topic admin and a controller over a real store, without logs."""

    def __init__(self, store: EmbeddedStore, config: BrokerConfig) -> None:
        self.store = store
        self.image = ClusterImage()
        self.config = config
        self.replicas = FakeReplicas()
        self.feed = ImageFeed(store, self.image, config, 0)
        states = PartitionStates(store, self.image, self.feed)
        self.controller = Controller(store, self.image, self.feed, states, config, 0)
        self.topic_admin = TopicAdmin(store, self.image, config, 0, self.feed)

    async def start(self) -> None:
        await self.feed.load()
        self.feed.start(self.replicas)
        self.controller.start()
        assert await self.feed.until(lambda: self.controller.is_active, 60)

    async def stop(self) -> None:
        await self.controller.stop()
        await self.feed.stop()
        await self.store.close()

    async def node(self, path: str) -> object:
        return json.loads((await self.store.get(path)).data)


@asynccontextmanager
async def cluster(file: Path, brokers: int = 1, racks: int = 0, **settings: str) -> AsyncIterator[Cluster]:
    store = EmbeddedStore(file, sync=False)
    await ensure_paths(store, (*nodes.PERSISTENT_PATHS, CHANGES, nodes.CONTROLLER_EPOCH))
    await store.set(nodes.CONTROLLER_EPOCH, nodes.encode_controller_epoch(6))
    for broker_id in range(brokers):
        rack = f"rack-{broker_id % racks}" if racks else None
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + broker_id)
        data = nodes.encode_broker(BrokerRegistration(broker_id, (endpoint,), rack))
        await store.create(nodes.broker_path(broker_id), data, ephemeral=True)
    config = BrokerConfig.embedded({name.replace("_", "."): value for name, value in settings.items()})
    cluster = Cluster(store, config)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


def refused(error: pytest.ExceptionInfo[KafkaError]) -> tuple[ErrorCode, str | None]:
    return error.value.code, error.value.message


# Creating


async def test_a_topic_is_written_as_kafka_writes_it(file: Path) -> None:
    async with cluster(file) as c:
        topic = await c.topic_admin.create_topic("t", 2, 1, configs={"cleanup.policy": "compact"})
        assert await c.node("/brokers/topics/t") == {
            "partitions": {"0": [0], "1": [0]},
            "topic_id": nodes.encode_uuid(topic.topic_id),
            "adding_replicas": {},
            "removing_replicas": {},
            "version": 3,
        }
        assert await c.node("/brokers/topics/t/partitions/1/state") == {
            "controller_epoch": 7,
            "leader": 0,
            "version": 1,
            "leader_epoch": 0,
            "isr": [0],
        }
        assert await c.node("/config/topics/t") == {"version": 1, "config": {"cleanup.policy": "compact"}}
        assert c.image.topics["t"] == topic
        assert c.replicas.open == {"t": {0, 1}}


async def test_an_image_that_is_loaded_again_is_the_same(file: Path) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("t", 3, configs={"retention.ms": "5"})
        await c.topic_admin.create_partitions("t", 5)
        before = c.image.topics
    async with cluster(file) as c:
        assert c.image.topics == before


async def test_counts_of_minus_one_are_the_brokers_defaults(file: Path) -> None:
    async with cluster(file, brokers=3, num_partitions="4", default_replication_factor="2") as c:
        topic = await c.topic_admin.create_topic("t")
        assert len(topic.partitions) == 4
        assert all(len(partition.replicas) == 2 for partition in topic.partitions.values())
        assert all(partition.leader == partition.replicas[0] for partition in topic.partitions.values())


async def test_validate_only_changes_nothing(file: Path) -> None:
    async with cluster(file) as c:
        topic = await c.topic_admin.create_topic("t", 2, validate_only=True)
        assert len(topic.partitions) == 2
        assert c.image.topics == {}
        assert await c.store.children(nodes.TOPICS) == []
        await c.topic_admin.create_topic("t", 1)
        await c.topic_admin.create_partitions("t", 9, validate_only=True)
        assert len(c.image.topics["t"].partitions) == 1


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        ("there", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (
            "a_b",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'a_b' collides with existing topic: a.b",
        ),
        (
            "__cluster_metadata",
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ],
)
async def test_names_that_cannot_be(file: Path, name: str, code: ErrorCode, message: str) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("there")
        await c.topic_admin.create_topic("a.b")
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.create_topic(name)
        assert refused(error) == (code, message)


@pytest.mark.parametrize(
    ("partitions", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (0, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (10_001, 1, ErrorCode.POLICY_VIOLATION),
    ],
)
async def test_counts_that_cannot_be(file: Path, partitions: int, factor: int, code: ErrorCode) -> None:
    async with cluster(file) as c:
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.create_topic("t", partitions, factor)
        assert error.value.code == code
        assert c.image.topics == {}


async def test_a_manual_assignment_leaves_no_room_for_counts(file: Path) -> None:
    async with cluster(file, brokers=3) as c:
        topic = await c.topic_admin.create_topic("t", assignment=[(0, [2, 1]), (1, [0, 2])])
        assert [partition.replicas for partition in topic.partitions.values()] == [(2, 1), (0, 2)]
        for partitions, factor in ((2, -1), (-1, 2)):
            with pytest.raises(KafkaError) as error:
                await c.topic_admin.create_topic("u", partitions, factor, assignment=[(0, [0])])
            assert error.value.code == ErrorCode.INVALID_REQUEST


async def test_a_config_that_cannot_be_is_refused_before_counts_are_looked_at(file: Path) -> None:
    async with cluster(file) as c:
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.create_topic("t", 0, configs={"nonsense": "1"})
        assert refused(error) == (ErrorCode.INVALID_CONFIG, "Unknown topic config name: nonsense")


async def test_of_two_creations_at_once_one_wins(file: Path) -> None:
    async with cluster(file) as c:
        names = ["t", "t", "a.b", "a_b"]
        results = await asyncio.gather(
            *(c.topic_admin.create_topic(name) for name in names), return_exceptions=True
        )
        errors = [result.code for result in results if isinstance(result, KafkaError)]
        assert errors == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert set(c.image.topics) == {"t", "a.b"}


async def test_a_thousand_partitions_cost_well_under_a_second(file: Path) -> None:
    async with cluster(file) as c:
        begin = time.process_time()
        await c.topic_admin.create_topic("t", 1000)
        assert time.process_time() - begin < 0.7
        assert len(c.image.topics["t"].partitions) == 1000


async def test_a_creation_is_finished_although_the_client_has_gone(file: Path) -> None:
    async with cluster(file) as c:
        c.replicas.gate.clear()
        client = asyncio.ensure_future(c.topic_admin.create_topic("t"))
        await c.replicas.asked.wait()
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        again = asyncio.ensure_future(c.topic_admin.create_topic("t"))
        assert not (await asyncio.wait([again], timeout=0.1))[0]  # no response before the logs exist
        c.replicas.gate.set()
        with pytest.raises(KafkaError) as error:
            await again
        assert error.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert c.replicas.open == {"t": {0}}


async def test_a_disk_that_fails_is_told_and_leaves_the_topic_known(file: Path) -> None:
    async with cluster(file) as c:
        c.replicas.failure = OSError("no space left")
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.create_topic("t")
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "t" in c.image.topics  # the store knows the topic: after a restart it would exist


# More partitions


async def test_partitions_are_added_behind_those_that_are_there(file: Path) -> None:
    async with cluster(file, brokers=2) as c:
        before = await c.topic_admin.create_topic("t", 2)
        after = await c.topic_admin.create_partitions("t", 4, assignment=[[1], [0]])
        assert after.topic_id == before.topic_id
        assert [partition.replicas for partition in after.partitions.values()][2:] == [(1,), (0,)]
        assert c.replicas.open == {"t": {0, 1, 2, 3}}
        assert (await c.store.exists("/brokers/topics/t/partitions/3/state")) is not None
        assert c.image.topics["t"].version == 1


@pytest.mark.parametrize(
    ("count", "assignment", "code", "message"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            4,
            [[0]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            [[0, 1]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
            "previous partitions, which have 1 replica(s).",
        ),
    ],
)
async def test_partitions_that_cannot_be_added(
    file: Path, count: int, assignment: list[list[int]] | None, code: ErrorCode, message: str
) -> None:
    async with cluster(file, brokers=2) as c:
        await c.topic_admin.create_topic("t", 2)
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.create_partitions("t", count, assignment=assignment)
        assert refused(error) == (code, message)


async def test_an_unknown_topic_cannot_be_changed(file: Path) -> None:
    async with cluster(file) as c:
        for change in (
            c.topic_admin.create_partitions("t", 2),
            c.topic_admin.delete_topic("t"),
            c.topic_admin.alter_topic_configs("t", dict),
        ):
            with pytest.raises(KafkaError) as error:
                await change
            assert error.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Deleting


async def test_a_deletion_leaves_no_node_behind(file: Path) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("t", 3, configs={"retention.ms": "5"})
        await c.topic_admin.delete_topic("t")
        assert c.image.topics == {} == c.replicas.open
        for path in (nodes.TOPICS, nodes.CONFIG_TOPICS, nodes.DELETE_TOPICS):
            assert await c.store.children(path) == []
        again = await c.topic_admin.create_topic("t")
        assert again.configs == {}


async def test_deleting_can_be_forbidden(file: Path) -> None:
    async with cluster(file, delete_topic_enable="false") as c:
        await c.topic_admin.create_topic("t")
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.delete_topic("t")
        assert error.value.code == ErrorCode.TOPIC_DELETION_DISABLED
        assert "t" in c.image.topics


async def test_a_deletion_that_was_cut_off_is_finished_at_the_next_start(file: Path) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("t", 2)
        await c.topic_admin.create_topic("u")
        c.replicas.failure = OSError("pulled the plug")
        with pytest.raises(KafkaError):
            await c.topic_admin.delete_topic("t")
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.create_topic("t")
        assert refused(error) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' is marked for deletion.")
    async with cluster(file) as c:
        assert await c.feed.until(lambda: not c.image.deleting, 60)
        assert set(c.image.topics) == {"u"}
        assert c.image.deleting == set()
        assert await c.store.children(nodes.DELETE_TOPICS) == []
        await c.topic_admin.create_topic("t")


# Configurations


async def test_a_topics_configs_reach_store_image_and_logs(file: Path) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("t", configs={"retention.ms": "5"})
        await c.topic_admin.alter_topic_configs("t", lambda before: {**before, "flush.ms": "7"})
        after = {"retention.ms": "5", "flush.ms": "7"}
        assert await c.node("/config/topics/t") == {"version": 1, "config": after}
        assert c.image.topics["t"].configs == after
        assert c.replicas.configs == [("t", after)]


async def test_what_is_not_valid_or_only_validated_is_not_written(file: Path) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("t")
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.alter_topic_configs("t", lambda before: {"retention.ms": "soon"})
        assert error.value.code == ErrorCode.INVALID_CONFIG
        await c.topic_admin.alter_topic_configs("t", lambda before: {"retention.ms": "5"}, validate_only=True)
        assert c.image.topics["t"].configs == {}
        assert c.replicas.configs == []


async def test_changes_of_one_topic_at_once_are_all_kept(file: Path) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("t")
        names = ["retention.ms", "flush.ms", "segment.ms", "segment.jitter.ms"]

        def setting(name: str):  # type: ignore[no-untyped-def]
            return lambda before: {**before, name: "77"}

        await asyncio.gather(*(c.topic_admin.alter_topic_configs("t", setting(name)) for name in names))
        assert c.image.topics["t"].configs == dict.fromkeys(names, "77")


async def test_a_brokers_configs_change_what_topics_inherit(file: Path) -> None:
    async with cluster(file) as c:
        await c.topic_admin.create_topic("t")
        await c.topic_admin.alter_broker_configs(None, lambda before: {"log.retention.ms": "60000"})
        assert c.config.topic_default("retention.ms") == 60000
        await c.topic_admin.alter_broker_configs(0, lambda before: {"log.retention.ms": "90000"})
        assert c.config.topic_default("retention.ms") == 90000
        assert [name for name, _ in c.replicas.configs] == ["t", "t"]
        assert await c.node("/config/brokers/<default>") == {
            "version": 1,
            "config": {"log.retention.ms": "60000"},
        }
        await c.topic_admin.alter_broker_configs(0, lambda before: {})
        assert c.config.topic_default("retention.ms") == 60000


@pytest.mark.parametrize(
    ("broker_id", "configs", "message"),
    [
        (0, {"num.partitions": "3"}, "Cannot update these configs dynamically: [num.partitions]"),
        (None, {"log.dirs": "/elsewhere"}, "Cannot update these configs dynamically: [log.dirs]"),
        (
            None,
            {"listeners": "PLAINTEXT://:1"},
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            0,
            {"log.retention.ms": "soon"},
            "Invalid value soon for configuration log.retention.ms: Not a number of type LONG",
        ),
        (3, {"log.retention.ms": "5"}, "Unexpected broker id, expected 0, but received 3"),
    ],
)
async def test_broker_configs_that_cannot_be_changed(
    file: Path, broker_id: int | None, configs: dict[str, str], message: str
) -> None:
    async with cluster(file) as c:
        with pytest.raises(KafkaError) as error:
            await c.topic_admin.alter_broker_configs(broker_id, lambda before: configs)
        assert refused(error) == (ErrorCode.INVALID_REQUEST, message)
        assert await c.store.children(nodes.CONFIG_BROKERS) == []
