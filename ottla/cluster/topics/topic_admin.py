"""Decides about topics, partitions and configurations, and lets the cluster know."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from ottla.cluster.image.change_notifications import config_notification, notification
from ottla.cluster.image.image_feed import ImageFeed
from ottla.cluster.topics import topic_nodes
from ottla.cluster.topics.new_assignments import Replicas
from ottla.cluster.topics.topic_decisions import DEFAULT, TopicDecisions
from ottla.cluster.topics.topic_deletion import remove_topic_nodes
from ottla.log.errors import LogDirectoryError
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.client_metrics import validate_client_metrics
from ottla.metadata.configs.effective_config import validate_dynamic_broker_configs
from ottla.metadata.configs.group_configs import validate_group_configs
from ottla.metadata.configs.topic_configs import validate_topic_configs
from ottla.metadata.stores.store import (
    BadVersion,
    Create,
    NodeExists,
    NodeStore,
    NoNode,
    Operation,
    Set,
    StoreError,
)
from ottla.metadata.topic_names import collision_key, validate_topic_name
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

T = TypeVar("T")
# What is set before → what is set after; raises KafkaError where the change makes no sense.
Alteration = Callable[[Mapping[str, str]], dict[str, str]]
# Told how many partitions are about to be created or deleted; raises KafkaError where a quota forbids it now.
Charge = Callable[[int], None]

_DEFAULT_TIMEOUT_MS = 30_000
_MAX_ATTEMPTS = 10


def free(partitions: int) -> None:
    """For changes that nobody is charged for."""


class LocalReplicas(Protocol):
    """The logs of this broker, as far as administration has to do with them."""

    async def open_topic(self, topic: TopicImage) -> None: ...

    async def delete_topic(self, name: str) -> None: ...

    async def open_unopened(self) -> None: ...

    def config_changed(self, topic: TopicImage) -> None: ...


class TopicAdmin:
    """The one who changes topics and configurations.

    Invariant: a decision is in the store before it is in the image, and in both before anybody is told. Decisions
    about one topic (and about names that collide with it) are made one after another. A decision once begun is
    finished even if the client that asked for it has gone. Owner: the event loop.

    In a cluster (with a feed) every broker has one. Then a decision is told to all brokers in the step that writes it,
    and answered when this broker's image shows it; the writes are such that of two brokers' decisions one stands.
    """

    def __init__(
        self,
        store: NodeStore,
        image: ClusterImage,
        config: BrokerConfig,
        replicas: LocalReplicas,
        broker_id: int,
        feed: ImageFeed | None = None,
    ) -> None:
        self._feed = feed
        self._store = store
        self._image = image
        self._config = config
        self._decisions = TopicDecisions(image, config)
        self._replicas = replicas
        self._broker_id = broker_id
        self._deciding: set[asyncio.Task[Any]] = set()
        self._topic_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._broker_configs_lock = asyncio.Lock()
        self._logs_lock = asyncio.Lock()  # log directories take one creation or deletion at a time

    async def create_topic(
        self,
        name: str,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        *,
        assignment: Sequence[tuple[int, Sequence[int]]] = (),
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
        charge: Charge = free,
    ) -> TopicImage:
        """The new topic, or what it would be. A count of -1 means the broker's default."""

        async def decide() -> TopicImage:
            async with self._topic_lock(name):
                topic = self._decisions.new_topic(
                    name, partitions, replication_factor, assignment, configs or {}
                )
                charge(len(topic.partitions))
                if not validate_only:
                    await self._create(topic, timeout_ms)
                return topic

        return await self._finish(decide())

    async def create_partitions(
        self,
        name: str,
        count: int,
        *,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
        charge: Charge = free,
    ) -> TopicImage:
        """Let the topic have `count` partitions in all."""

        async def decide() -> TopicImage:
            async with self._topic_lock(name):
                for attempt in range(_MAX_ATTEMPTS):
                    topic = self._existing(name)
                    more = self._decisions.more_partitions(topic, count, assignment)
                    if attempt == 0:
                        charge(len(more))
                    if validate_only:
                        return topic
                    try:
                        return await self._extend(topic, more, timeout_ms)
                    except BadVersion:
                        if self._feed is None:
                            raise
                        await self._feed.read_topics([name])  # another broker was faster
                raise StoreError(f"Topic {name} changes faster than it can be read.")

        return await self._finish(decide())

    async def delete_topic(
        self, name: str, timeout_ms: int = _DEFAULT_TIMEOUT_MS, charge: Charge = free
    ) -> None:
        """Delete a topic. Clients see it gone at once; after a crash `resume_deletions` does the rest."""

        async def decide() -> None:
            async with self._topic_lock(name):
                topic = self._existing(name)
                if not self._config.get_bool("delete.topic.enable"):
                    raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
                charge(len(topic.partitions))
                try:
                    await self._store.create(nodes.delete_topic_path(name))
                except NodeExists:
                    logger.info("Topic %s is deleted again: the last attempt did not finish", name)
                if self._feed is not None:
                    await self._shown(self._feed, lambda: self._is_gone(name), timeout_ms)
                    return
                self._image.deleting.add(name)
                await self._delete(name)

        await self._finish(decide())

    async def resume_deletions(self) -> None:
        """Finish what was being deleted when the broker stopped."""
        for name in sorted(self._image.deleting):
            logger.info("Finishing the deletion of topic %s", name)
            try:
                await self._delete(name)
            except (KafkaError, OSError) as error:
                logger.error("Topic %s cannot be deleted yet: %s", name, error)

    async def open_unopened(self) -> None:
        """Make the logs that a full disk did not allow when their topic was created."""
        async with self._logs_lock:
            await self._replicas.open_unopened()

    async def alter_topic_configs(
        self, name: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        async def decide() -> None:
            async with self._topic_lock(name):
                validate_topic_name(name)
                if name not in self._image.topics:
                    raise KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
                    )
                configs = await self._alter_config(
                    nodes.topic_config_path(name), alteration, validate_topic_configs, validate_only
                )
                if configs is not None:
                    self._image.set_topic_configs(name, configs)
                    self._replicas.config_changed(self._image.topics[name])

        await self._finish(decide())

    async def alter_group_configs(
        self, group_id: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        async def decide() -> None:
            async with self._broker_configs_lock:
                configs = await self._alter_config(
                    nodes.group_config_path(group_id),
                    alteration,
                    lambda changed, _: validate_group_configs(self._config, changed),
                    validate_only,
                )
                if configs is not None:
                    self._image.set_group_configs(group_id, configs)

        await self._finish(decide())

    async def alter_client_metrics(
        self, subscription: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        async def decide() -> None:
            async with self._broker_configs_lock:
                configs = await self._alter_config(
                    nodes.client_metrics_path(subscription),
                    alteration,
                    lambda changed, _: validate_client_metrics(changed),
                    validate_only,
                )
                if configs is not None:
                    self._image.set_client_metrics(subscription, configs)

        await self._finish(decide())

    async def alter_broker_configs(
        self, broker_id: int | None, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        """Of this broker, or with None of all of them."""

        async def decide() -> None:
            async with self._broker_configs_lock:
                configs = await self._alter_config(
                    nodes.broker_config_path(broker_id),
                    alteration,
                    lambda changed, before: validate_dynamic_broker_configs(
                        self._config, changed, before, cluster_default=broker_id is None
                    ),
                    validate_only,
                )
                if configs is None:
                    return
                self._image.set_broker_configs(broker_id, configs)
                if broker_id is None:
                    self._config.set_dynamic(cluster_default=configs)
                else:
                    self._config.set_dynamic(broker=configs)
                for topic in self._image.topics.values():
                    self._replicas.config_changed(topic)

        if broker_id not in (None, self._broker_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._broker_id}, but received {broker_id}",
            )
        await self._finish(decide())

    # Deciding

    def _topic_lock(self, name: str) -> asyncio.Lock:
        key = collision_key(name)
        lock = self._topic_locks.get(key)
        if lock is None:
            lock = self._topic_locks[key] = asyncio.Lock()
        return lock

    async def _finish(self, decision: Coroutine[Any, Any, T]) -> T:
        """Run a decision to its end, whether or not the caller waits for it."""
        task = asyncio.ensure_future(self._explained(decision))
        self._deciding.add(task)
        task.add_done_callback(self._decided)
        return await asyncio.shield(task)

    def _decided(self, task: asyncio.Task[Any]) -> None:
        self._deciding.discard(task)
        if not task.cancelled():
            task.exception()  # seen, even if the caller has gone

    async def _explained(self, decision: Coroutine[Any, Any, T]) -> T:
        try:
            return await decision
        except (OSError, LogDirectoryError) as error:
            logger.error("The log directory failed: %s", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        except StoreError as error:
            logger.error("The metadata store failed: %s", error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None

    def _existing(self, name: str) -> TopicImage:
        topic = self._image.topics.get(name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        return topic

    # Carrying out

    async def _create(self, topic: TopicImage, timeout_ms: int) -> None:
        operations = topic_nodes.creation(
            topic, self._image.controller_epoch, states=self._fits(topic.name, topic.partitions)
        )
        # A config node may be there before its topic: Kafka's tools of old wrote it first.
        config_path, config = nodes.topic_config_path(topic.name), nodes.encode_config(topic.configs)
        if await self._store.exists(config_path) is None:
            operations.append(Create(config_path, config))
        else:
            operations.append(Set(config_path, config))
        if self._feed is not None:
            operations.append(notification(topics=[topic.name]))
        try:
            await self._store.multi(operations)
        except NodeExists:
            if self._feed is not None:  # by another broker, just now
                await self._feed.until(lambda: topic.name in self._image.topics, timeout_ms / 1000)
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists."
            ) from None
        await self._show(topic, timeout_ms)

    def _fits(self, name: str, partitions: Collection[object]) -> bool:
        return self._feed is None or topic_nodes.fit_at_once(name, len(partitions))

    async def _show(self, topic: TopicImage, timeout_ms: int) -> None:
        if self._feed is None:
            await self._open(topic)
            return
        feed, keys = self._feed, [(topic.name, index) for index in topic.partitions]

        def shown() -> bool:
            known = (self._image.partitions.get(key) for key in keys)
            return all(each is not None and each.partition_epoch >= 0 for each in known) and feed.is_settled(
                topic.name
            )

        await self._shown(feed, shown, timeout_ms)

    def _is_gone(self, name: str) -> bool:
        return name not in self._image.topics and name not in self._image.deleting

    async def _shown(self, feed: ImageFeed, condition: Callable[[], bool], timeout_ms: int) -> None:
        if not await feed.until(condition, timeout_ms / 1000):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")

    async def _extend(
        self, decided_on: TopicImage, more: Mapping[int, Replicas], timeout_ms: int
    ) -> TopicImage:
        name = decided_on.name
        node = await self._store.get(nodes.topic_path(name))
        added = {index: topic_nodes.first_state(name, index, replicas) for index, replicas in more.items()}
        operations = topic_nodes.extension(
            name, node, added.values(), self._image.controller_epoch, states=self._fits(name, added)
        )
        if self._feed is not None:
            if node.version != decided_on.version:
                raise BadVersion(nodes.topic_path(name))  # there is more than what was decided on
            operations.append(notification(topics=[name]))
        await self._store.multi(operations)
        before = self._existing(name)
        topic = before._replace(partitions={**before.partitions, **added}, version=node.version + 1)
        await self._show(topic, timeout_ms)
        return topic

    async def _open(self, topic: TopicImage) -> None:
        """Open the logs, then show the topic: who sees it can use it."""
        try:
            async with self._logs_lock:
                await self._replicas.open_topic(topic)
        finally:
            self._image.put_topic(topic)

    async def _delete(self, name: str) -> None:
        self._image.remove_topic(name)
        async with self._logs_lock:
            await self._replicas.delete_topic(name)
        await remove_topic_nodes(self._store, name)
        self._image.deleting.discard(name)

    async def _alter_config(
        self,
        path: str,
        alteration: Alteration,
        check: Callable[[Mapping[str, str], Mapping[str, str]], None],
        validate_only: bool,
    ) -> dict[str, str] | None:
        """What is to be shown in the image: None if nothing was written, and in a cluster, where the feed does it.

        Another broker may alter the same at the same time, so the node counts, and not the image.
        """
        for _ in range(_MAX_ATTEMPTS):
            [node] = await self._store.get_many([path])
            before = {} if node is None else nodes.decode_config(node.data)
            configs = alteration(before)
            check(configs, before)
            if validate_only:
                return None
            data = nodes.encode_config(configs)
            operations: list[Operation] = [
                Create(path, data) if node is None else Set(path, data, node.version)
            ]
            if self._feed is not None:
                operations.append(config_notification(path))
            try:
                await self._store.multi(operations)
            except (BadVersion, NoNode, NodeExists) as error:
                if error.path != path:
                    raise
                continue
            if self._feed is None:
                return configs
            await self._feed.sync()
            return None
        raise StoreError(f"{path} changes faster than it can be read.")
