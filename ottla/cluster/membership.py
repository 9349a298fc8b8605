"""Join a cluster: cluster id, broker id and registration."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress

from ottla import __version__
from ottla.cluster.controller.failure_detection import SUSPECTS
from ottla.cluster.image.change_notifications import CHANGES, config_notification
from ottla.cluster.image.offline_replicas import OFFLINE, log_dir_event
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.nodes import BrokerRegistration
from ottla.metadata.stores.store import (
    Delete,
    NodeExists,
    NodeStore,
    NoNode,
    Operation,
    StoreError,
    ensure_paths,
)

logger = logging.getLogger(__name__)

FORMAT = "/ottla/format"  # {"version": 1, "format": N}
METADATA_FORMAT = 1

_LOOK_AGAIN_SECONDS = 0.1
_RETRY_SECONDS = 0.5


async def join_cluster(store: NodeStore, cluster_id: str | None = None) -> str:
    """Create the nodes that every cluster has, and return the cluster id. The first broker chooses the id."""
    if await store.exists(nodes.MIGRATION) is not None:
        raise StoreError(
            f"This cluster has moved, or is moving, from ZooKeeper to KRaft, as {nodes.MIGRATION} in ZooKeeper says: "
            "revert the migration first, as Kafka's documentation describes it"
        )
    await _check_format(store)
    cluster_id = cluster_id or nodes.encode_uuid(nodes.random_uuid())
    paths = (*nodes.PERSISTENT_PATHS, CHANGES, OFFLINE, SUSPECTS, nodes.CLUSTER_ID)
    await ensure_paths(store, paths, {nodes.CLUSTER_ID: nodes.encode_cluster_id(cluster_id)})
    return nodes.decode_cluster_id((await store.get(nodes.CLUSTER_ID)).data)


async def _check_format(store: NodeStore) -> None:
    """Refuse metadata that only newer releases understand. Without the node the metadata has format 1.

    A release that writes metadata its predecessor would misread first creates the node, after the last broker of the
    predecessor has stopped.
    """
    [node] = await store.get_many([FORMAT])
    if node is None:
        return
    try:
        needed = int(json.loads(node.data)["format"])
    except (ValueError, TypeError, KeyError):
        raise StoreError(
            f"The node {FORMAT} of the cluster's metadata is damaged: {node.data[:100]!r}."
        ) from None
    if needed > METADATA_FORMAT:
        raise StoreError(
            f"The cluster's metadata has format {needed} of a newer Ottla, and Ottla {__version__} reads formats up to "
            f"{METADATA_FORMAT}: start the version that the cluster ran before."
        )


async def generate_broker_id(store: NodeStore, config: BrokerConfig) -> int:
    """Generate an id above reserved.broker.max.id for a broker without one."""
    if not config.get_bool("broker.id.generation.enable"):
        raise StoreError(
            "broker.id is not set, and broker.id.generation.enable is false: give the broker an id"
        )
    return await store.set(nodes.BROKER_SEQUENCE, b"") + config.get_int("reserved.broker.max.id")


async def forget_broker(store: NodeStore, broker_id: int) -> bool:
    """Delete the remains of a broker that will not return. Return False if there are none."""
    config = nodes.broker_config_path(broker_id)
    paths = (nodes.broker_path(broker_id), config, f"{OFFLINE}/{broker_id}")
    found = await store.get_many(paths)
    left = [path for path, node in zip(paths, found, strict=True) if node is not None]
    if not left:
        return False
    operations: list[Operation] = [Delete(path) for path in left]
    if config in left:
        operations.append(config_notification(config))
    await store.multi([*operations, log_dir_event(broker_id)])
    logger.info("Broker %d is unregistered", broker_id)
    return True


class Membership:
    """The registration of this broker.

    Invariant: from `register` to `leave` the broker is registered, or about to be. Owner: the event loop.
    """

    def __init__(
        self,
        store: NodeStore,
        image: ClusterImage,
        registration: Callable[[], BrokerRegistration],
        session_seconds: float,
    ) -> None:
        self._store = store
        self._image = image
        self._registration = registration
        self._broker_id = registration().broker_id
        self._session_seconds = session_seconds
        self.epoch = -1  # epoch of the registration
        self._registering: asyncio.Task[None] | None = None
        self._leaving = False

    async def wait_for_id(self) -> None:
        """Wait until no other broker uses this id. Until then no decision may be made in its name."""
        registration, path = self._registration(), nodes.broker_path(self._broker_id)
        deadline = asyncio.get_running_loop().time() + self._session_seconds + 1
        while True:
            [node] = await self._store.get_many([path])
            if (
                node is None
                or nodes.decode_broker(self._broker_id, node.data).endpoints == registration.endpoints
            ):
                return
            await self._make_way(path, registration, deadline)

    async def register(self) -> None:
        """Register this broker. Replace its own node from before a restart, but never another broker's node."""
        registration = self._registration()
        path = nodes.broker_path(self._broker_id)
        deadline = asyncio.get_running_loop().time() + self._session_seconds + 1
        while True:
            try:
                await self._store.create(path, nodes.encode_broker(registration), ephemeral=True)
            except NodeExists:
                await self._make_way(path, registration, deadline)
                continue
            stat = await self._store.exists(path)
            if stat is not None:  # otherwise the node has already disappeared with its session
                self.epoch = stat.czxid
                logger.info(
                    "Registered broker %d at %s, with %s and broker epoch %d",
                    self._broker_id,
                    path,
                    ", ".join(map(str, registration.endpoints)),
                    self.epoch,
                )
                return

    async def _make_way(self, path: str, registration: BrokerRegistration, deadline: float) -> None:
        try:
            node = await self._store.get(path)
        except NoNode:
            return
        other = nodes.decode_broker(self._broker_id, node.data)
        if other.endpoints == registration.endpoints:
            # This process now listens at that address, so the registered process has ended.
            with suppress(NoNode):
                await self._store.delete(path, node.version)
            return
        if asyncio.get_running_loop().time() > deadline:
            addresses = ", ".join(map(str, other.endpoints))
            raise StoreError(
                f"Broker {self._broker_id} is registered already, at {addresses}: give this one another broker.id"
            )
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def check(self) -> None:
        """Check after a change of the brokers in the image whether this broker is still registered."""
        known = self._image.brokers.get(self._broker_id)
        if self.epoch >= 0 and (known is None or known.epoch != self.epoch):
            self.register_again()

    def register_again(self) -> None:
        """Register again, because the session has ended or the controller considered this broker dead."""
        if not self._leaving and (self._registering is None or self._registering.done()):
            self._registering = asyncio.get_running_loop().create_task(self._register_again())

    async def _register_again(self) -> None:
        while not self._leaving:
            try:
                stat = await self._store.exists(nodes.broker_path(self._broker_id))
                if stat is not None and stat.czxid == self.epoch:
                    return  # the image lagged behind
                await self.register()
                logger.warning("Broker %d has registered again", self._broker_id)
                return
            except StoreError as error:
                logger.error("Broker %d cannot register and will try again: %s", self._broker_id, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def leave(self) -> None:
        """Remove the registration before the session ends."""
        self._leaving = True
        if self._registering is not None:
            self._registering.cancel()
        if self.epoch >= 0:
            self.epoch = -1
            with suppress(NoNode):
                await self._store.delete(nodes.broker_path(self._broker_id))
