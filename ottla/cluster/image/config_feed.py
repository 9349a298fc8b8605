"""Keep the configurations in the image up to date, using Kafka's notifications under /config/changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from ottla.cluster.image.change_notifications import sequence_of
from ottla.cluster.image.image_applier import LocalReplicas
from ottla.metadata import nodes
from ottla.metadata.client_quotas import load_client_quotas
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.dynamic_configs.dynamic_broker_config import DynamicBrokerConfig
from ottla.metadata.scram_credentials import load_scram_credentials
from ottla.metadata.stores.store import NodeStore, NoNode, children_if_any

logger = logging.getLogger(__name__)


class ConfigFeed:
    """Updates the configurations in the image. Owner: the event loop."""

    def __init__(self, store: NodeStore, image: ClusterImage, config: BrokerConfig) -> None:
        self._store = store
        self._image = image
        self._dynamic = DynamicBrokerConfig(config)
        self._last = -1
        self.replicas: LocalReplicas | None = None
        self.on_quotas: list[Callable[[], None]] = []
        self.on_broker_configs: list[Callable[[], None]] = []
        self.on_topic_configs: list[Callable[[TopicImage], None]] = []

    async def skip_changes(self) -> None:
        """Skip the existing notifications, because a full read follows."""
        self._last = max(
            map(sequence_of, await children_if_any(self._store, nodes.CONFIG_CHANGES)), default=self._last
        )

    async def read_changes(self, gap: type[Exception]) -> None:
        names = await children_if_any(self._store, nodes.CONFIG_CHANGES)
        new = sorted((sequence_of(name), name) for name in names if sequence_of(name) > self._last)
        if new and new[0][0] != self._last + 1:
            raise gap
        found = await self._store.get_many([f"{nodes.CONFIG_CHANGES}/{name}" for _, name in new])
        for (sequence, _), node in zip(new, found, strict=True):
            if node is None:
                raise gap
            try:
                await self.read_entity(_entity(json.loads(node.data)))
            except (ValueError, KeyError, TypeError) as error:
                logger.error(
                    "Ignoring a notification of a changed configuration, which cannot be read: %s", error
                )
            self._last = sequence

    async def read_entity(self, entity: str) -> None:
        kind, _, name = entity.partition("/")
        if kind in ("clients", "users", "ips"):
            self._take_quotas(await load_client_quotas(self._store))
            if kind == "users":
                self._image.scram_credentials = await load_scram_credentials(self._store)
            return
        try:
            configs = nodes.decode_config((await self._store.get(f"/config/{entity}")).data)
        except NoNode:
            configs = {}
        match kind:
            case "topics":
                if name in self._image.topics:
                    self._image.set_topic_configs(name, configs)
                    self.topic_configs_changed(self._image.topics[name])
            case "brokers":
                broker_id = None if name == nodes.DEFAULT_ENTITY else int(name)
                self._image.set_broker_configs(broker_id, configs)
                self._broker_configs_changed()
            case "groups":
                self._image.set_group_configs(nodes.name_of_config(name), configs)
            case "client-metrics":
                self._image.set_client_metrics(nodes.name_of_config(name), configs)

    def topic_configs_changed(self, topic: TopicImage) -> None:
        logger.info("Topic %s has the configs %s", topic.name, dict(topic.configs))
        if self.replicas is not None:
            self.replicas.config_changed(topic)
        for listener in self.on_topic_configs:
            listener(topic)

    def take(self, fresh: ClusterImage) -> None:
        """Apply all configurations of a freshly read image, except topic configs."""
        self._image.group_configs = fresh.group_configs
        self._image.client_metrics = fresh.client_metrics
        if fresh.broker_configs != self._image.broker_configs:
            self._image.broker_configs = fresh.broker_configs
            self._broker_configs_changed()
        self._take_quotas(fresh.client_quotas)
        self._image.scram_credentials = fresh.scram_credentials

    def _take_quotas(self, quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]]) -> None:
        if quotas != self._image.client_quotas:
            self._image.client_quotas = quotas
            self._image.version += 1
            for listener in self.on_quotas:
                listener()

    def _broker_configs_changed(self) -> None:
        self._dynamic.apply(self._image.broker_configs)
        if self.replicas is not None:
            for topic in self._image.topics.values():
                self.replicas.config_changed(topic)
        for listener in self.on_broker_configs:
            listener()


def _entity(change: dict[str, object]) -> str:
    """Return the entity of a change. Tools from before Kafka 0.10.1 write it in two parts, and some still do."""
    if "entity_path" in change:
        return str(change["entity_path"])
    return f"{change['entity_type']}/{change['entity_name']}"
