"""Configs, ACLs and delegation tokens, kept current from the metadata store."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from ottla.cluster.image.change_notifications import sequence_of
from ottla.cluster.image.image_applier import LocalReplicas
from ottla.metadata import acl_nodes, nodes
from ottla.metadata.acl_nodes import (
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    Acls,
    decode_notification,
    load_acls,
    read_acls,
)
from ottla.metadata.client_quotas import load_client_quotas
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.credentials import load_scram_credentials, read_tokens
from ottla.metadata.dynamic_configs.dynamic_broker_config import DynamicBrokerConfig
from ottla.metadata.stores.store import NodeStore, NoNode, StoreError, children_if_any, ensure_paths
from ottla.security.acls import ResourcePattern
from ottla.security.authorizer import Authorizer

# Keep the configurations in the image up to date, using Kafka's notifications under /config/changes.

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


# Keep an authorizer in sync with the ACLs in the store, using Kafka's change notifications.

FOLDERS = (LITERAL_CHANGES, EXTENDED_CHANGES)


class AclFeed:
    """Invariant: the authorizer decides by the last successful read of the ACL nodes; an unreadable node changes
    nothing.

    Owner: the event loop.
    """

    def __init__(self, store: NodeStore, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer
        self._last = dict.fromkeys(FOLDERS, -1)

    async def prepare(self) -> None:
        """Create the parent nodes of ACLs and notifications, as Kafka does, so that they can be watched."""
        await ensure_paths(self._store, acl_nodes.FOLDERS)

    async def load(self) -> None:
        """Read all ACLs, after the newest notification. Changes notified during the read are harmlessly read twice."""
        for folder in FOLDERS:
            names = await children_if_any(self._store, folder)
            self._last[folder] = max(map(sequence_of, names), default=self._last[folder])
        try:
            found = await load_acls(self._store)
        except ValueError as error:
            raise StoreError(f"The ACLs cannot be read, so access could not be checked: {error}.") from None
        for pattern in {acl.pattern for acl in self._authorizer} - found.keys():
            self._authorizer.replace(pattern, ())
        self._take(found)

    async def read_changes(self, gap: type[Exception]) -> None:
        for folder in FOLDERS:
            names = await children_if_any(self._store, folder)
            new = sorted(
                (sequence_of(name), name) for name in names if sequence_of(name) > self._last[folder]
            )
            if not new:
                continue
            if new[0][0] != self._last[folder] + 1:
                raise gap
            found = await self._store.get_many([f"{folder}/{name}" for _, name in new])
            if None in found:
                raise gap
            patterns = dict.fromkeys(
                pattern for node in found if node is not None for pattern in _named_by(node.data)
            )
            try:
                self._take(await read_acls(self._store, list(patterns)))
            except ValueError as error:
                logger.error(
                    "ACLs have changed but cannot be read; the previous ACLs stay in force: %s", error
                )
            self._last[folder] = new[-1][0]

    def _take(self, acls: Acls) -> None:
        for pattern, entries in acls.items():
            if self._authorizer.entries(pattern) != entries:
                self._authorizer.replace(pattern, entries)


def _named_by(data: bytes) -> list[ResourcePattern]:
    try:
        return [decode_notification(data)]
    except (ValueError, KeyError) as error:
        logger.error("Ignoring a notification of a changed ACL, which cannot be read: %s", error)
        return []


# Keep the delegation tokens in the image up to date, using Kafka's notifications under /delegation_token.


class TokenFeed:
    """Owner: the event loop."""

    def __init__(self, store: NodeStore, image: ClusterImage) -> None:
        self._store = store
        self._image = image
        self._last = -1

    async def skip_changes(self) -> None:
        """Skip the existing notifications, because a full read follows."""
        names = await children_if_any(self._store, nodes.DELEGATION_TOKEN_CHANGES)
        self._last = max(map(sequence_of, names), default=self._last)

    async def read_changes(self, gap: type[Exception]) -> None:
        names = await children_if_any(self._store, nodes.DELEGATION_TOKEN_CHANGES)
        new = sorted((sequence_of(name), name) for name in names if sequence_of(name) > self._last)
        if not new:
            return
        if new[0][0] != self._last + 1:
            raise gap
        found = await self._store.get_many([f"{nodes.DELEGATION_TOKEN_CHANGES}/{name}" for _, name in new])
        if None in found:
            raise gap
        changed = {node.data.decode(errors="replace") for node in found if node is not None}
        # Not every string is a valid path component, and no token has an invalid id.
        ids = [each for each in changed if each.strip(".") and "/" not in each and "\0" not in each]
        for token_id, token in (await read_tokens(self._store, ids)).items():
            if token is None:
                self._image.delegation_tokens.pop(token_id, None)
            else:
                self._image.delegation_tokens[token_id] = token
        self._last = new[-1][0]
