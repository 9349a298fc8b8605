"""Decide changes of topics, partitions and configurations, write them, and wait until they take effect here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ottla.cluster.image.change_notifications import config_notification, notification
from ottla.cluster.image.image_feed import ImageFeed
from ottla.cluster.topics import topic_decisions as topic_nodes
from ottla.cluster.topics.topic_decisions import DEFAULT, Replicas, TopicDecisions, check_tiering
from ottla.log.config import LogDirectoryError
from ottla.log.files import descriptors
from ottla.log.segments.open_files import active_files
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.group_configs import validate_client_metrics, validate_group_configs
from ottla.metadata.configs.topic_configs import (
    SCHEMA_REGISTRY_URL,
    check_mirror_link,
    check_schema_registry,
    validate_topic_configs,
)
from ottla.metadata.dynamic_configs.dynamic_broker_config import DynamicBrokerConfig
from ottla.metadata.dynamic_configs.dynamic_passwords import DynamicPasswords, NoSecret
from ottla.metadata.nodes import collision_key, validate_topic_name
from ottla.metadata.stores.store import BadVersion, Create, NodeExists, NodeStore, NoNode, Set, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.jaas import BadJaas, parse_entry

logger = logging.getLogger(__name__)

T = TypeVar("T")
# Maps the previous settings to the new ones. Raises KafkaError for invalid changes.
Alteration = Callable[[Mapping[str, str]], dict[str, str]]
# Gets the previous and the new settings. Raises KafkaError if the new ones are invalid.
Validation = Callable[[Mapping[str, str], Mapping[str, str]], None]
# Gets the number of partitions to create or delete. Raises KafkaError if a quota forbids it.
Charge = Callable[[int], None]

_DEFAULT_TIMEOUT_MS = 30_000
_MAX_ATTEMPTS = 10


def free(partitions: int) -> None:
    """Charge nothing."""


class TopicAdmin:
    """Administers topics and configurations. Every broker has an instance, and each may make changes.

    Invariant: one write contains a decision and the notification of all brokers; it fails if another broker has decided
    otherwise since. The answer follows once this broker's image and replicas reflect the change. A broker serializes
    its decisions about one topic and about names that collide with it. A decision in progress completes even if the
    client disconnects. Owner: the event loop.
    """

    def __init__(
        self, store: NodeStore, image: ClusterImage, config: BrokerConfig, broker_id: int, feed: ImageFeed
    ) -> None:
        self._store = store
        self._image = image
        self._config = config
        self._dynamic = DynamicBrokerConfig(config)
        self._broker_id = broker_id
        self._feed = feed
        self._decisions = TopicDecisions(image, config)
        self._deciding: set[asyncio.Task[Any]] = set()
        self._topic_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._configs_lock = asyncio.Lock()
        # Rejects broker settings that only this process can judge, such as certificates. Raises KafkaError.
        self.check_broker_configs: Callable[[Mapping[str, str]], None] | None = None

    # Topics

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
        """Create a topic, or validate only. Return its image. A count of -1 means the broker's default."""

        async def decide() -> TopicImage:
            async with self._topic_lock(name):
                topic = self._decisions.new_topic(
                    name, partitions, replication_factor, assignment, configs or {}
                )
                charge(len(topic.partitions))
                _check_descriptors(name)
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
        """Raise the topic's partition count to `count`."""

        async def decide() -> TopicImage:
            async with self._topic_lock(name):
                for attempt in range(_MAX_ATTEMPTS):
                    topic = self._existing(name)
                    more = self._decisions.more_partitions(topic, count, assignment)
                    if attempt == 0:
                        charge(len(more))
                        _check_descriptors(name)
                    if validate_only:
                        return topic
                    try:
                        return await self._extend(topic, more, timeout_ms)
                    except BadVersion:
                        await self._feed.read_topics([name])  # another broker was faster
                raise StoreError(f"Topic {name} changes faster than it can be read.")

        return await self._finish(decide())

    async def delete_topic(
        self, name: str, timeout_ms: int = _DEFAULT_TIMEOUT_MS, charge: Charge = free
    ) -> None:
        """Mark a topic for deletion. Clients no longer see it; the controller removes its nodes."""

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
                await self._carried_out(name, lambda: self._is_gone(name), timeout_ms)

        await self._finish(decide())

    # Configurations

    async def alter_topic_configs(
        self, name: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        def validate(after: Mapping[str, str], before: Mapping[str, str]) -> None:
            validate_topic_configs(after, before)
            check_mirror_link(after, before)
            check_schema_registry(after, self._config.get_list(SCHEMA_REGISTRY_URL))
            check_tiering(self._config, after, before)

        async def decide() -> None:
            async with self._topic_lock(name):
                validate_topic_name(name)
                if name not in self._image.topics:
                    raise KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
                    )
                path = nodes.topic_config_path(name)
                await self._alter_config(path, alteration, validate, validate_only)

        await self._finish(decide())

    async def alter_group_configs(
        self, group_id: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        def validate(after: Mapping[str, str], before: Mapping[str, str]) -> None:
            validate_group_configs(self._config, after)

        await self._alter_one_by_one(nodes.group_config_path(group_id), alteration, validate, validate_only)

    async def alter_client_metrics(
        self, subscription: str, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        def validate(after: Mapping[str, str], before: Mapping[str, str]) -> None:
            validate_client_metrics(after)

        path = nodes.client_metrics_path(subscription)
        await self._alter_one_by_one(path, alteration, validate, validate_only)

    async def alter_broker_configs(
        self, broker_id: int | None, alteration: Alteration, *, validate_only: bool = False
    ) -> None:
        """Alter the configs of this broker, or with None the cluster-wide defaults."""

        def validate(after: Mapping[str, str], before: Mapping[str, str]) -> None:
            self._dynamic.validate(after, before, cluster_default=broker_id is None)
            _check_login_modules(after, before)
            if broker_id is not None and self.check_broker_configs is not None:
                self.check_broker_configs(after)

        if broker_id not in (None, self._broker_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._broker_id}, but received {broker_id}",
            )
        path = nodes.broker_config_path(broker_id)
        try:
            await self._alter_one_by_one(path, alteration, validate, validate_only, self._dynamic.passwords)
        except NoSecret as error:
            name = "" if broker_id is None else str(broker_id)
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid config value for resource ConfigResource(type=BROKER, name='{name}'): {error}",
            ) from None

    async def _alter_one_by_one(
        self,
        path: str,
        alteration: Alteration,
        validate: Validation,
        validate_only: bool,
        passwords: DynamicPasswords | None = None,
    ) -> None:
        async def decide() -> None:
            async with self._configs_lock:
                await self._alter_config(path, alteration, validate, validate_only, passwords)

        await self._finish(decide())

    async def _alter_config(
        self,
        path: str,
        alteration: Alteration,
        validate: Validation,
        validate_only: bool,
        passwords: DynamicPasswords | None = None,
    ) -> None:
        """Alter a config based on its node rather than the image, because another broker may alter it concurrently."""
        for _ in range(_MAX_ATTEMPTS):
            [node] = await self._store.get_many([path])
            stored = {} if node is None else nodes.decode_config(node.data)
            before = stored if passwords is None else passwords.reveal(stored)
            configs = alteration(before)
            validate(configs, before)
            if validate_only:
                return
            if passwords is not None:
                configs = passwords.conceal(configs, stored, before)
            data = nodes.encode_config(configs)
            write = Create(path, data) if node is None else Set(path, data, node.version)
            try:
                await self._store.multi([write, config_notification(path)])
            except (BadVersion, NoNode, NodeExists) as error:
                if error.path != path:
                    raise
                continue
            await self._feed.sync()
            return
        raise StoreError(f"{path} changes faster than it can be read.")

    # Decisions

    def _topic_lock(self, name: str) -> asyncio.Lock:
        key = collision_key(name)
        lock = self._topic_locks.get(key)
        if lock is None:
            lock = self._topic_locks[key] = asyncio.Lock()
        return lock

    async def _finish(self, decision: Coroutine[Any, Any, T]) -> T:
        """Run a decision to completion, whether or not the caller still waits."""
        task = asyncio.ensure_future(self._explained(decision))
        self._deciding.add(task)
        task.add_done_callback(self._decided)
        return await asyncio.shield(task)

    def _decided(self, task: asyncio.Task[Any]) -> None:
        self._deciding.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve it, in case the caller has left

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

    # Writing and waiting

    async def _create(self, topic: TopicImage, timeout_ms: int) -> None:
        name = topic.name
        operations = topic_nodes.creation(
            topic,
            self._image.controller_epoch,
            states=topic_nodes.fit_at_once(name, len(topic.partitions)),
        )
        # A config node may precede its topic: Kafka's old tools wrote it first.
        config_path, config = nodes.topic_config_path(name), nodes.encode_config(topic.configs)
        is_new = await self._store.exists(config_path) is None
        operations.append(Create(config_path, config) if is_new else Set(config_path, config))
        operations.append(notification(topics=[name]))
        try:
            await self._store.multi(operations)
        except NodeExists:  # another broker has just created it
            await self._feed.until(lambda: name in self._image.topics, timeout_ms / 1000)
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from None
        logger.info("Created topic %s with %d partitions", name, len(topic.partitions))
        await self._carried_out(name, lambda: self._is_shown(topic), timeout_ms)

    async def _extend(
        self, decided_on: TopicImage, more: Mapping[int, Replicas], timeout_ms: int
    ) -> TopicImage:
        name = decided_on.name
        node = await self._store.get(nodes.topic_path(name))
        if node.version != decided_on.version:
            raise BadVersion(nodes.topic_path(name))  # the topic has more nodes than decided
        added = {index: topic_nodes.first_state(name, index, replicas) for index, replicas in more.items()}
        operations = topic_nodes.extension(
            name,
            node,
            added.values(),
            self._image.controller_epoch,
            states=topic_nodes.fit_at_once(name, len(added)),
        )
        await self._store.multi([*operations, notification(topics=[name])])
        before = self._existing(name)
        topic = before._replace(partitions={**before.partitions, **added}, version=node.version + 1)
        await self._carried_out(name, lambda: self._is_shown(topic), timeout_ms)
        return topic

    def _is_shown(self, topic: TopicImage) -> bool:
        """Return True if the image has the topic with these partitions, each with a state."""
        known = (self._image.partitions.get((topic.name, index)) for index in topic.partitions)
        return all(each is not None and each.partition_epoch >= 0 for each in known)

    def _is_gone(self, name: str) -> bool:
        """Return True if the topic is gone, or cannot go because this broker failed to delete its logs."""
        if name in self._image.topics:
            return False
        return name not in self._image.deleting or self._feed.failure(name) is not None

    async def _carried_out(self, name: str, condition: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until the image meets the condition and the replicas follow it. Raises the error of a failed attempt."""
        if not await self._feed.until(lambda: condition() and self._feed.is_settled(name), timeout_ms / 1000):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
        failure = self._feed.failure(name)
        if failure is not None:
            raise failure


def _check_login_modules(after: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Reject unknown or unreadable login modules, which would prevent the broker from restarting."""
    for name, text in after.items():
        if name.endswith("sasl.jaas.config") and text != before.get(name):
            try:
                parse_entry(text)
            except BadJaas as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} cannot be read: {error}.") from None


def _check_descriptors(name: str) -> None:
    """Reject a topic before creating any part of it. Rare, since existing logs give way to new ones."""
    if not descriptors.are_left():
        active_files.close_idle()
        if not descriptors.are_left():
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"No partitions of topic '{name}' can be created: {descriptors.shortage()}.",
            )
