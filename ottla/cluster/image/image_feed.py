"""Keep the cluster image in sync with the store, and apply it to this broker's replicas."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ottla.cluster.background_tasks import end_tasks
from ottla.cluster.image.change_notifications import CHANGES, ChangedPartition, decode_change, sequence_of
from ottla.cluster.image.config_feed import FOLDERS, AclFeed, ConfigFeed, TokenFeed
from ottla.cluster.image.image_applier import ImageApplier, LocalReplicas
from ottla.cluster.image.offline_replicas import read_offline_replicas
from ottla.metadata import nodes
from ottla.metadata.cluster_image import (
    NO_CONTROLLER,
    ClusterImage,
    PartitionImage,
    TopicImage,
    read_brokers,
    read_topics,
)
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.stores.store import CancelWatch, NodeStore, StoreError, Watcher, children_if_any
from ottla.security.authorizer import Authorizer

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2

PartitionKey = tuple[str, int]


class Gap(Exception):
    """Notifications were removed before this broker read them."""


class _Kind(enum.IntEnum):
    """Parts of the image to reread, in reading order."""

    EVERYTHING = 0
    OFFLINE = 1  # before the brokers: a broker writes its offline replicas, then registers
    BROKERS = 2
    CONTROLLER = 3
    DELETIONS = 4
    CHANGES = 5
    CONFIGS = 6
    ACLS = 7
    TOKENS = 8


_WATCHED = (
    (nodes.LOG_DIR_EVENT_NOTIFICATION, True, _Kind.OFFLINE),
    (nodes.BROKER_IDS, True, _Kind.OFFLINE),
    (nodes.BROKER_IDS, True, _Kind.BROKERS),
    (nodes.CONTROLLER, False, _Kind.CONTROLLER),
    (nodes.DELETE_TOPICS, True, _Kind.DELETIONS),
    (CHANGES, True, _Kind.CHANGES),
    (nodes.CONFIG_CHANGES, True, _Kind.CONFIGS),
    (nodes.DELEGATION_TOKEN_CHANGES, True, _Kind.TOKENS),
)


class ImageFeed:
    """Keeps one image up to date.

    Invariant: a partition state is replaced only by a state with a higher partition epoch, unless the topic was
    recreated. Replicas follow the image topic by topic: they may skip states, but never miss the last one. After a gap
    the whole image is reread. Owner: the event loop.
    """

    def __init__(
        self,
        store: NodeStore,
        image: ClusterImage,
        config: BrokerConfig,
        broker_id: int,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._store = store
        self.image = self._image = image
        self._may_delete = config.get_bool("delete.topic.enable")
        self.configs = ConfigFeed(store, image, config)
        self._acls = None if authorizer is None else AclFeed(store, authorizer)
        self.tokens = TokenFeed(store, image)
        # Callbacks after the image has changed.
        self.on_brokers: list[Callable[[], None]] = []
        self.on_offline: list[Callable[[], None]] = []
        self.on_controller: list[Callable[[], None]] = []
        self.on_partitions: list[Callable[[Iterable[PartitionKey]], None]] = []
        self.on_deletions: list[Callable[[], None]] = []
        self.on_topic_deleted: list[Callable[[TopicImage], None]] = []
        self._readers: dict[_Kind, Callable[[], Awaitable[None]]] = {
            _Kind.EVERYTHING: self._read_everything,
            _Kind.OFFLINE: self.read_offline,
            _Kind.BROKERS: self._read_brokers,
            _Kind.CONTROLLER: self._read_controller,
            _Kind.DELETIONS: self._read_deletions,
            _Kind.CHANGES: self._read_changes,
            _Kind.CONFIGS: lambda: self.configs.read_changes(Gap),
            _Kind.ACLS: self._read_acls,
            _Kind.TOKENS: lambda: self.tokens.read_changes(Gap),
        }
        self._last_change = -1
        self._pending: set[_Kind] = set()
        self._wake = asyncio.Event()
        self._rounds: list[asyncio.Future[None]] = []
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._applier = ImageApplier(image, broker_id, self._settled)
        self._watches: list[CancelWatch] = []
        self._following: asyncio.Task[None] | None = None

    # Lifecycle

    async def load(self) -> None:
        """Read the whole image. No later change is missed; changes are applied after `start`."""
        for path, children, kind in _WATCHED:
            self._watches.append(self._store.watch(path, self._marker(kind), children=children))
        if self._acls is not None:
            await self._acls.prepare()
            for path in FOLDERS:
                self._watches.append(self._store.watch(path, self._marker(_Kind.ACLS), children=True))
        await self._read_everything()

    def start(self, replicas: LocalReplicas) -> None:
        """Start following the store, and apply the image to the replicas."""
        self.configs.replicas = replicas
        self._applier.start(replicas)
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        for cancel in self._watches:
            cancel()
        if self._following is not None:
            await end_tasks([self._following])
        await self._applier.stop()
        for _, future in self._waiting:
            future.cancel()

    def reload(self) -> None:
        """Reread everything, because a change may have been missed."""
        self._mark(_Kind.EVERYTHING)

    async def sync(self) -> None:
        """Wait until the image contains everything currently in the store."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rounds.append(done)
        self._pending.update(set(_Kind) - {_Kind.EVERYTHING})
        self._wake.set()
        await done

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until image and replicas meet a condition. Return False on timeout."""
        if condition():
            return True
        met: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, met)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await met
        except TimeoutError:
            return False
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
        return True

    def is_settled(self, topic: str) -> bool:
        """Return True if the replicas match the image or the attempt has failed."""
        return self._applier.is_settled(topic)

    def failure(self, topic: str) -> Exception | None:
        """Return the reason why the replicas do not match the image, or None if they do or will soon."""
        return self._applier.failure(topic)

    # Following

    def _marker(self, kind: _Kind) -> Watcher:
        return lambda _: self._mark(kind)

    def _mark(self, kind: _Kind) -> None:
        self._pending.add(kind)
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            kinds, self._pending = sorted(self._pending), set()
            rounds, self._rounds = self._rounds, []
            try:
                while kinds:
                    await self._readers[kinds[0]]()
                    del kinds[0]
            except Gap:
                logger.warning("Changes of the cluster's metadata were missed: reading all of it again")
                self._pending.update({_Kind.EVERYTHING, *kinds[1:]})
            except StoreError as error:
                logger.warning("Cannot read the cluster's metadata and will try again: %s", error)
                self._pending.update(kinds)
                self._rounds = rounds + self._rounds
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()
                continue
            except Exception:
                logger.exception("Cannot apply a change of the cluster's metadata: reading all of it again")
                self._pending.update({_Kind.EVERYTHING, *kinds[1:]})
                await asyncio.sleep(_RETRY_SECONDS)
            if self._pending:
                self._rounds = rounds + self._rounds
                self._wake.set()
                continue
            for done in rounds:
                if not done.done():
                    done.set_result(None)
            self._check_waiting()

    async def read_offline(self) -> None:
        """Read the offline replicas that brokers reported to the store."""
        found = await read_offline_replicas(self._store)
        if found != self._image.offline_replicas:
            self._image.set_offline_replicas(found)
            _call(self.on_offline)

    async def _read_brokers(self) -> None:
        self._take_brokers({broker.broker_id: broker for broker in await read_brokers(self._store)})

    def _take_brokers(self, found: dict[int, Any]) -> None:
        if found == self._image.brokers:
            return
        for broker_id in [each for each in self._image.brokers if each not in found]:
            self._image.remove_broker(broker_id)
        for broker in found.values():
            if self._image.brokers.get(broker.broker_id) != broker:
                self._image.put_broker(broker)
        _call(self.on_brokers)

    async def _read_controller(self) -> None:
        controller, epoch = await self._store.get_many([nodes.CONTROLLER, nodes.CONTROLLER_EPOCH])
        controller_id = NO_CONTROLLER if controller is None else nodes.decode_controller(controller.data)
        self._take_controller(
            controller_id,
            nodes.decode_controller_epoch(epoch.data) if epoch and epoch.data else 0,
        )

    def _take_controller(self, controller_id: int, epoch: int) -> None:
        self._image.set_controller(controller_id, max(epoch, self._image.controller_epoch))
        _call(self.on_controller)

    async def _read_acls(self) -> None:
        if self._acls is not None:
            await self._acls.read_changes(Gap)

    async def _read_deletions(self) -> None:
        self._take_deletions(set(await children_if_any(self._store, nodes.DELETE_TOPICS)))

    def _take_deletions(self, marked: set[str]) -> None:
        deleting = (
            marked if self._may_delete else set()
        )  # without topic deletion a mark comes from a tool and has no effect
        for name in deleting:
            self._remove_topic(name)
        if deleting != self._image.deleting:
            self._image.deleting = deleting
            _call(self.on_deletions)

    async def _read_changes(self) -> None:
        names = await children_if_any(self._store, CHANGES)
        new = sorted((sequence_of(name), name) for name in names if sequence_of(name) > self._last_change)
        if new and new[0][0] != self._last_change + 1:
            raise Gap
        for first in range(0, len(new), 100):
            some = new[first : first + 100]
            found = await self._store.get_many([f"{CHANGES}/{name}" for _, name in some])
            for (sequence, _), node in zip(some, found, strict=True):
                if node is None:
                    raise Gap
                change = decode_change(node.data)
                self.learn(change.partitions)
                if change.topics:
                    await self.read_topics(change.topics)
                for entity in change.configs:
                    await self.configs.read_entity(entity)
                self._last_change = sequence

    # Full read

    async def _read_everything(self) -> None:
        # Read the last notification first: changes notified during the read are harmlessly applied twice.
        last_change = max(
            map(sequence_of, await children_if_any(self._store, CHANGES)), default=self._last_change
        )
        await self.configs.skip_changes()
        await self.tokens.skip_changes()
        fresh = await ClusterImage.load(self._store)
        if self._acls is not None:
            await self._acls.load()
        self._last_change = last_change
        self._image.cluster_id = fresh.cluster_id or self._image.cluster_id
        await self.read_offline()
        self._take_brokers(fresh.brokers)
        self._take_controller(fresh.controller_id, fresh.controller_epoch)
        self.configs.take(fresh)
        self._image.delegation_tokens = fresh.delegation_tokens
        self._take_deletions(fresh.deleting)
        for name in [each for each in self._image.topics if each not in fresh.topics]:
            self._remove_topic(name)
        for topic in fresh.topics.values():
            if topic.name not in self._image.deleting:
                self._put_topic(topic)

    # Topics

    async def read_topics(self, names: Iterable[str]) -> None:
        """Reread topics that came, went, or got other partitions or replicas."""
        names = list(names)
        marks = await self._store.get_many([nodes.delete_topic_path(name) for name in names])
        found = {topic.name: topic for topic in await read_topics(self._store, names)}
        for name, mark in zip(names, marks, strict=True):
            topic = found.get(name)
            if topic is None or (mark is not None and self._may_delete):
                self._remove_topic(name)
            else:
                self._put_topic(topic)
            if mark is None:
                self._image.deleting.discard(name)

    def _put_topic(self, topic: TopicImage) -> None:
        known = self._image.topics.get(topic.name)
        if known is None or known.topic_id != topic.topic_id:
            if known is not None:
                self._remove_topic(topic.name)
            self._image.put_topic(topic)
            self._changed(topic.name, topic.partitions)
            return
        topic = _merged(known, topic)
        if topic != known:
            self._image.put_topic(topic)
            before, after = known.partitions, topic.partitions
            changed = [index for index in {**before, **after} if before.get(index) != after.get(index)]
            self._changed(topic.name, changed)
            if topic.configs != known.configs:
                self.configs.topic_configs_changed(topic)

    def _remove_topic(self, name: str) -> None:
        topic = self._image.topics.get(name)
        if topic is None:
            return
        self._image.remove_topic(name)
        for listener in self.on_topic_deleted:
            listener(topic)
        self._changed(name, topic.partitions)

    def learn(self, changed: Iterable[ChangedPartition]) -> None:
        """Apply new partition states, in any order."""
        by_topic: dict[str, list[PartitionImage]] = {}
        for each in changed:
            topic = self._image.topics.get(each.topic)
            known = None if topic is None else topic.partitions.get(each.partition)
            if topic is None or known is None or topic.topic_id != each.topic_id:
                continue  # deleted topic, or one announced by a later notification
            if each.partition_epoch > known.partition_epoch:
                by_topic.setdefault(each.topic, []).append(
                    known._replace(
                        leader=each.state.leader,
                        leader_epoch=each.state.leader_epoch,
                        isr=each.state.isr,
                        partition_epoch=each.partition_epoch,
                    )
                )
        for name, partitions in by_topic.items():
            self._image.put_partitions(name, partitions)
            self._changed(name, [partition.partition for partition in partitions])
        if by_topic:
            self._check_waiting()

    # Callbacks

    def _changed(self, name: str, indexes: Iterable[int]) -> None:
        indexes = list(indexes)
        keys = [(name, index) for index in indexes]
        for listener in self.on_partitions:
            listener(keys)
        self._applier.changed(name, indexes)

    def _settled(self) -> None:
        if self._image.deleting:
            _call(self.on_deletions)  # the controller may be waiting for the deletion of the logs
        self._check_waiting()

    def _check_waiting(self) -> None:
        for entry in list(self._waiting):
            condition, met = entry
            if met.done():
                self._waiting.remove(entry)
            elif condition():
                self._waiting.remove(entry)
                met.set_result(None)


def _merged(known: TopicImage, read: TopicImage) -> TopicImage:
    """Merge the newer assignment with the newer state of each partition, because other reads may finish first."""
    assigned = known if known.version > read.version else read
    partitions = {}
    for index, assignment in assigned.partitions.items():
        states = [topic.partitions[index] for topic in (read, known) if index in topic.partitions]
        partitions[index] = max(states, key=lambda state: state.partition_epoch)._replace(
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
        )
    return read._replace(partitions=partitions, version=assigned.version)


def _call(listeners: list[Callable[[], None]]) -> None:
    for listener in listeners:
        listener()
