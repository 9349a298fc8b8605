"""Carry out reassignments: one write changes the topic's node and its partition states.

The rules are in `reassignment.reassignments`. Callers are AlterPartitionReassignments (`k45`), the controller when a
reassignment is complete, and requests that tools write into ZooKeeper (`controller.tool_requests`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ottla.cluster.elections import NO_STATE, Deposed
from ottla.cluster.image.change_notifications import notification
from ottla.cluster.image.image_feed import ImageFeed, PartitionKey
from ottla.cluster.reassignment import reassignments
from ottla.cluster.topics import topic_decisions as topic_nodes
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.stores.store import BadVersion, Check, NodeStore, NoNode, Operation, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

_PER_MULTI = 250
_MAX_ATTEMPTS = 20

Decide = Callable[[PartitionImage], PartitionImage | None]


class Reassigner:
    """Begins, cancels and finishes reassignments. Any broker may begin or cancel; the controller finishes.

    Invariant: a replica leaves the assignment and the ISR in the same write, which is conditional on both. The image
    contains the change when the coroutine returns. Owner: the event loop.
    """

    def __init__(self, store: NodeStore, image: ClusterImage, feed: ImageFeed) -> None:
        self._store = store
        self._image = image
        self._feed = feed
        self._lock = asyncio.Lock()

    async def alter(
        self,
        wanted: Mapping[PartitionKey, Sequence[int] | None],
        live: Collection[int],
        *,
        may_change_factor: bool = True,
    ) -> dict[PartitionKey, KafkaError]:
        """Begin reassignments, or cancel them where the target is None. Return the errors of refused partitions."""
        refused: dict[PartitionKey, KafkaError] = {}

        def decide(partition: PartitionImage) -> PartitionImage | None:
            key = (partition.topic, partition.partition)
            replicas = wanted[key]
            refused.pop(key, None)
            try:
                able = self._image.able(partition, live)
                if replicas is None:
                    return reassignments.cancel(partition, able)
                reassignments.check_wanted(partition, replicas, live, may_change_factor=may_change_factor)
                return reassignments.begin(partition, replicas, able)
            except KafkaError as error:
                refused[key] = error
                return None

        done = await self._change(wanted, decide, None)
        for key in wanted:
            if key not in done and key not in refused and key not in self._image.partitions:
                refused[key] = KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
                )
        return refused

    async def finish(self, keys: Iterable[PartitionKey], live: Collection[int], guard: Check) -> None:
        """Finish completed reassignments. Raises Deposed if another broker is the controller."""
        done = await self._change(
            keys, lambda each: reassignments.finish(each, self._image.able(each, live)), guard
        )
        for key in sorted(done):
            partition = self._image.partitions.get(key)
            if partition is not None:
                logger.info(
                    "The reassignment of %s-%d to brokers %s is done",
                    *key,
                    ",".join(map(str, partition.replicas)),
                )

    async def _change(
        self, keys: Iterable[PartitionKey], decide: Decide, guard: Check | None
    ) -> set[PartitionKey]:
        by_topic: dict[str, list[int]] = {}
        for name, index in keys:
            by_topic.setdefault(name, []).append(index)
        changed: set[PartitionKey] = set()
        for name, indexes in by_topic.items():
            for first in range(0, len(indexes), _PER_MULTI):
                some = indexes[first : first + _PER_MULTI]
                changed.update((name, index) for index in await self._change_topic(name, some, decide, guard))
        return changed

    async def _change_topic(
        self, name: str, indexes: Sequence[int], decide: Decide, guard: Check | None
    ) -> list[int]:
        """Change a topic. If another broker was faster, reread the topic and decide again."""
        async with self._lock:
            for _ in range(_MAX_ATTEMPTS):
                topic = self._image.topics.get(name)
                if topic is None:
                    return []
                known = (topic.partitions.get(index) for index in indexes)
                moved = [
                    (before, after)
                    for before in known
                    if before is not None and (after := decide(before)) is not None and after != before
                ]
                if not moved:
                    return []
                try:
                    await self._write(topic, moved, guard)
                except (BadVersion, NoNode) as error:
                    if guard is not None and error.path == guard.path:
                        raise Deposed from None
                    await self._feed.read_topics([name])
                else:
                    await self._feed.read_topics([name])
                    return [after.partition for _, after in moved]
        raise StoreError(f"Topic {name} changes faster than it can be read.")

    async def _write(
        self,
        topic: TopicImage,
        moved: Sequence[tuple[PartitionImage, PartitionImage]],
        guard: Check | None,
    ) -> None:
        node = await self._store.get(nodes.topic_path(topic.name))
        if node.version != topic.version:
            raise BadVersion(nodes.topic_path(topic.name))
        operations: list[Operation] = [guard] if guard is not None else []
        operations.append(topic_nodes.reassignment(topic.name, node, [after for _, after in moved]))
        for before, after in moved:
            # A concurrent ISR change by the leader must fail: it may count a removed replica.
            leaving = not set(before.replicas) <= set(after.replicas)
            if after.partition_epoch != NO_STATE and (leaving or not after.is_moving):
                operations.append(topic_nodes.next_state(after, self._image.controller_epoch))
        # Name only the topic: brokers have to read its states together with its replicas.
        operations.append(notification(topics=[topic.name]))
        await self._store.multi(operations)
