"""Requests that tools write into ZooKeeper for the controller: topics, partitions, reassignments, preferred elections.

Kafka's own tools worked this way until 2.8 (`--zookeeper`), and other tools still do. Ottla's brokers write the same
nodes together with a notification; this module finds nodes written without one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence

from ottla.cluster import elections
from ottla.cluster.elections import Deposed, PartitionStates
from ottla.cluster.image.change_notifications import notification
from ottla.cluster.image.image_feed import ImageFeed, PartitionKey
from ottla.cluster.reassignment import reassignments
from ottla.cluster.reassignment.reassigner import Reassigner
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.stores.store import (
    BadVersion,
    CancelWatch,
    Check,
    Delete,
    Node,
    NodeStore,
    NoNode,
    Operation,
    Set,
    StoreError,
)

logger = logging.getLogger(__name__)

_ASKED_FOR = (nodes.TOPICS, nodes.REASSIGN_PARTITIONS, nodes.PREFERRED_REPLICA_ELECTION)
_PER_ROUND = 100  # topics checked before the controller does other work


class ToolRequests:
    """Serves tools on behalf of the controller.

    Invariant: a topic counts as written by a tool only if the image lacks it after applying all notifications. A
    request is removed from its node once it is completed or refused. Owner: the event loop.
    """

    def __init__(
        self,
        store: NodeStore,
        image: ClusterImage,
        feed: ImageFeed,
        states: PartitionStates,
        reassigner: Reassigner,
        wake: Callable[[], None],
        *,
        may_delete: bool,
    ) -> None:
        self._store = store
        self._image = image
        self._feed = feed
        self._states = states
        self._reassigner = reassigner
        self._wake = wake
        # If topic deletion is enabled, the controller itself handles the deletion marks.
        self._asked_for = _ASKED_FOR if may_delete else (*_ASKED_FOR, nodes.DELETE_TOPICS)
        self._watches: list[CancelWatch] = []
        self._topic_watches: dict[str, CancelWatch] = {}
        self._due: set[str] = set()  # paths to read
        self._altered: set[str] = set()  # topics to read
        self._begun: dict[PartitionKey, tuple[int, ...]] = {}  # requested moves still in progress

    def begin(self) -> None:
        """Take over pending requests: this broker is now the controller."""
        self.end()
        for path in self._asked_for:
            of_children = path in (nodes.TOPICS, nodes.DELETE_TOPICS)
            self._watches.append(self._store.watch(path, self._changed, children=of_children))
        self._due.update(self._asked_for)

    def end(self) -> None:
        for cancel in (*self._watches, *self._topic_watches.values()):
            cancel()
        self._watches.clear()
        self._topic_watches.clear()
        self._due.clear()
        self._altered.clear()
        self._begun.clear()

    def _changed(self, path: str) -> None:
        self._due.add(path)
        self._wake()

    async def carry_out(self, live: Collection[int], guard: Check) -> None:
        """Serve the requests. Raises Deposed if another broker is the controller."""
        try:
            if nodes.TOPICS in self._due:
                self._due.discard(nodes.TOPICS)
                await self._watch_topics()
            if self._altered:
                await self._take_topics(guard)
            if nodes.REASSIGN_PARTITIONS in self._due or self._has_moved():
                self._due.discard(nodes.REASSIGN_PARTITIONS)
                await self._move(live, guard)
            if nodes.PREFERRED_REPLICA_ELECTION in self._due:
                self._due.discard(nodes.PREFERRED_REPLICA_ELECTION)
                await self._elect(live, guard)
            if nodes.DELETE_TOPICS in self._due:
                self._due.discard(nodes.DELETE_TOPICS)
                await self._refuse_deletions(guard)
        except StoreError as error:
            self._due.update(self._asked_for)
            if not isinstance(error, BadVersion | NoNode):
                raise
            if error.path == guard.path:
                raise Deposed from None
            self._wake()  # another broker or tool changed the node in the meantime: check again

    # Topics

    async def _watch_topics(self) -> None:
        """Watch each topic's node, as Kafka does: no other node shows that a topic gained partitions."""
        names = set(await self._store.children(nodes.TOPICS))
        for gone in self._topic_watches.keys() - names:
            self._topic_watches.pop(gone)()
        new = sorted(names - self._topic_watches.keys())
        for name in new[:_PER_ROUND]:
            self._topic_watches[name] = self._store.watch(nodes.topic_path(name), self._topic_changed)
            self._altered.add(name)
        if len(new) > _PER_ROUND:
            self._changed(nodes.TOPICS)

    def _topic_changed(self, path: str) -> None:
        self._altered.add(path.removeprefix(f"{nodes.TOPICS}/"))
        self._wake()

    async def _take_topics(self, guard: Check) -> None:
        names = sorted(self._altered)
        self._altered.clear()
        try:
            await self._take_unnotified(names, guard)
        except StoreError:
            self._altered.update(names)
            raise

    async def _take_unnotified(self, names: Sequence[str], guard: Check) -> None:
        found = await self._store.get_many([nodes.topic_path(name) for name in names])
        unnotified = [
            (name, node)
            for name, node in zip(names, found, strict=True)
            if node is not None and self._is_unnotified(name, node)
        ]
        if not unnotified:
            return
        await self._feed.sync()
        for name, node in unnotified:
            if self._is_unnotified(name, node):
                await self._take_topic(name, node, guard)

    def _is_unnotified(self, name: str, node: Node) -> bool:
        if name in self._image.deleting:
            return False
        topic = self._image.topics.get(name)
        return topic is None or topic.version < node.version or self._lacks_id(name)

    def _lacks_id(self, name: str) -> bool:
        """Return True for an unused topic that a tool created without an id."""
        topic = self._image.topics.get(name)
        return topic is None or (
            topic.topic_id == nodes.ZERO_UUID
            and all(each.partition_epoch == elections.NO_STATE for each in topic.partitions.values())
        )

    async def _take_topic(self, name: str, node: Node, guard: Check) -> None:
        path = nodes.topic_path(name)
        try:
            topic = nodes.decode_topic(name, node.data)
        except nodes.BadNode as error:
            logger.error("Ignoring a topic that a tool has written: %s", error)
            return
        as_read: Operation = Check(path, node.version)
        if topic.topic_id is None and self._lacks_id(name):
            topic = topic._replace(topic_id=nodes.random_uuid())
            as_read = Set(path, nodes.encode_topic(topic), node.version)
        known = name in self._image.topics
        await self._store.multi([guard, as_read, notification(topics=[name])])
        logger.info("Topic %s was %s by a tool", name, "changed" if known else "created")
        await self._feed.read_topics([name])

    async def _refuse_deletions(self, guard: Check) -> None:
        for name in await self._store.children(nodes.DELETE_TOPICS):
            logger.warning("A tool has asked to delete topic %s: refused, as delete.topic.enable=false", name)
            await self._store.multi([guard, Delete(nodes.delete_topic_path(name))])

    # Moves

    def _has_moved(self) -> bool:
        return any(not self._is_moving(key, replicas) for key, replicas in self._begun.items())

    def _is_moving(self, key: PartitionKey, replicas: tuple[int, ...]) -> bool:
        partition = self._image.partitions.get(key)
        return partition is not None and partition.is_moving and reassignments.target(partition) == replicas

    async def _move(self, live: Collection[int], guard: Check) -> None:
        path = nodes.REASSIGN_PARTITIONS
        [node] = await self._store.get_many([path])
        asked = {} if node is None else _asked_for(path, node)
        new = {key: replicas for key, replicas in asked.items() if self._begun.get(key) != replicas}
        for (name, index), error in (await self._reassigner.alter(new, live)).items():
            logger.warning("A tool has asked to reassign %s-%d: refused: %s", name, index, error)
        left = {key: replicas for key, replicas in asked.items() if self._is_moving(key, replicas)}
        self._begun = left
        if node is None or left == asked != {}:
            return
        done = Set(path, _encoded(left), node.version) if left else Delete(path, node.version)
        await self._store.multi([guard, done])

    # Preferred leaders

    async def _elect(self, live: Collection[int], guard: Check) -> None:
        path = nodes.PREFERRED_REPLICA_ELECTION
        [node] = await self._store.get_many([path])
        if node is None:
            return
        keys = [key for key in _asked_for(path, node) if key in self._image.partitions]
        await self._states.change(keys, lambda each: elections.prefer(each, live), guard=guard)
        await self._store.multi([guard, Delete(path, node.version)])


def _asked_for(path: str, node: Node) -> dict[PartitionKey, tuple[int, ...]]:
    """Return the partitions in a node with their replicas. An unreadable node yields no partitions."""
    try:
        return {
            (str(each["topic"]), int(each["partition"])): tuple(map(int, each.get("replicas", ())))
            for each in json.loads(node.data)["partitions"]
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        logger.error(
            "Ignoring the node %s, which a tool has written and which cannot be read: %r", path, error
        )
        return {}


def _encoded(asked: dict[PartitionKey, tuple[int, ...]]) -> bytes:
    partitions = [
        {"topic": name, "partition": index, "replicas": replicas} for (name, index), replicas in asked.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":")).encode()
