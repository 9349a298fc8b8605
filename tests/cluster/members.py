"""Cluster members in one process: real controllers and feeds over one real store, without logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.cluster.controller.controller import Controller
from ottla.cluster.elections import PartitionStates
from ottla.cluster.image.change_notifications import CHANGES
from ottla.cluster.image.image_feed import ImageFeed
from ottla.cluster.image.offline_replicas import OFFLINE
from ottla.cluster.topics.topic_admin import TopicAdmin
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import BrokerRegistration, Endpoint
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import NodeStore, ensure_paths
from ottla.security.authorizer import Authorizer


class Held:
    def __init__(self, topic_id: bytes, state: PartitionImage) -> None:
        self.topic_id = topic_id
        self.state = state


class FakeReplicas:
    """Records every applied change, and has no logs."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.held: dict[str, dict[int, Held]] = {}
        self.configs: list[tuple[str, dict[str, str]]] = []
        self.deleted: list[str] = []
        self.applied = 0
        self.failures: list[Exception] = []  # raised by the next calls

    def apply(self, topic: TopicImage, changed: Iterable[int]) -> Awaitable[None]:
        if self.failures:
            raise self.failures.pop()
        for index in changed:
            self.applied += 1
            state = topic.partitions.get(index)
            if state is not None and self.broker_id in state.replicas:
                self.held.setdefault(topic.name, {})[index] = Held(topic.topic_id, state)
            else:
                self.held.get(topic.name, {}).pop(index, None)
        return asyncio.sleep(0)

    async def delete_topic(self, name: str) -> None:
        self.held.pop(name, None)
        if self.failures:
            raise self.failures.pop()
        self.deleted.append(name)

    def config_changed(self, topic: TopicImage) -> None:
        self.configs.append((topic.name, dict(topic.configs)))

    def topic(self, name: str) -> dict[int, Held]:
        return self.held.get(name, {})


class Member:
    def __init__(self, store: NodeStore, broker_id: int, settings: dict[str, str]) -> None:
        self.store = store
        self.id = broker_id
        self.config = BrokerConfig({"broker.id": str(broker_id), **settings})
        self.image = ClusterImage()
        self.replicas = FakeReplicas(broker_id)
        self.authorizer = Authorizer()
        self.feed = ImageFeed(store, self.image, self.config, broker_id, self.authorizer)
        self.states = PartitionStates(store, self.image, self.feed)
        self.controller = Controller(store, self.image, self.feed, self.states, self.config, broker_id)
        self.admin = TopicAdmin(store, self.image, self.config, broker_id, self.feed)

    async def start(self) -> None:
        await self.feed.load()
        self.feed.start(self.replicas)
        await self.register()
        self.controller.start()

    async def register(self) -> None:
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9000 + self.id)
        data = nodes.encode_broker(BrokerRegistration(self.id, (endpoint,)))
        await self.store.create(nodes.broker_path(self.id), data, ephemeral=True)

    async def vanish(self) -> None:
        """Drop out as if the session had expired, without notice."""
        self.controller._guard = None
        await self.controller.stop()
        await self.feed.stop()
        await self.store.delete(nodes.broker_path(self.id))
        controller, _ = await self.store.get_many([nodes.CONTROLLER, nodes.CONTROLLER_EPOCH])
        if controller is not None and nodes.decode_controller(controller.data) == self.id:
            await self.store.delete(nodes.CONTROLLER)

    def state(self, topic: str, index: int = 0) -> tuple[int, int, tuple[int, ...]]:
        partition = self.image.partitions[topic, index]
        return partition.leader, partition.leader_epoch, partition.isr


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def members(directory: Path, count: int = 3, **settings: str) -> AsyncIterator[list[Member]]:
    store = EmbeddedStore(directory / "metadata.db", sync=False)
    await ensure_paths(store, (*nodes.PERSISTENT_PATHS, CHANGES, OFFLINE))
    named = {name.replace("_", "."): value for name, value in settings.items()}
    found = [Member(store, broker_id, named) for broker_id in range(count)]
    try:
        for member in found:
            await member.start()
        await until(lambda: all(len(member.image.brokers) == count for member in found))
        await until(lambda: all(member.image.controller_id >= 0 for member in found))
        yield found
    finally:
        for member in found:
            await member.controller.stop()
            await member.feed.stop()
        await store.close()
