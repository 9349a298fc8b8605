"""Load and unload a coordinator's partitions as this broker gains and loses their leadership."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from ottla.metadata.cluster_image import ClusterImage
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.replicas import Replicas

logger = logging.getLogger(__name__)

# Pause between two attempts to read a partition.
_FIRST_PAUSE_SECONDS = 0.5
_LAST_PAUSE_SECONDS = 30.0


class CoordinatorLeadership:
    """Invariant: every partition led by this broker is loaded or awaits another attempt. Owner: the event loop."""

    def __init__(self, runtime: CoordinatorRuntime[Any], replicas: Replicas, image: ClusterImage) -> None:
        self._runtime = runtime
        self._topic = runtime.topic
        self._replicas = replicas
        self._image = image
        self._loading: set[asyncio.Task[None]] = set()
        replicas.on_leading.append(self._on_leading)
        replicas.on_leaving.append(self._on_leaving)

    async def start(self) -> None:
        self._count_partitions()
        for partition in self._replicas.topic(self._topic).values():
            if partition.is_leader:
                await self._load(partition, partition.leader_epoch)

    def _on_leading(self, partition: Partition) -> None:
        if partition.topic != self._topic:
            return
        self._count_partitions()  # another broker may have created the topic
        self._begin_to_load(partition, partition.leader_epoch)

    def _begin_to_load(
        self, partition: Partition, leader_epoch: int, pause: float = _FIRST_PAUSE_SECONDS
    ) -> None:
        if not partition.is_leader or partition.leader_epoch != leader_epoch:
            return  # another broker leads it, or another epoch has loaded it
        task = asyncio.get_running_loop().create_task(self._load(partition, leader_epoch, pause))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _load(
        self, partition: Partition, leader_epoch: int, pause: float = _FIRST_PAUSE_SECONDS
    ) -> None:
        """Load a partition; after a failure retry in the background."""
        try:
            await self._runtime.become_leader(partition.index, leader_epoch)
            return
        except KafkaError as error:
            logger.error("Cannot load %s-%d, trying again: %s", self._topic, partition.index, error)
        except Exception:
            logger.exception("Cannot load %s-%d, trying again", self._topic, partition.index)
        asyncio.get_running_loop().call_later(
            pause, self._begin_to_load, partition, leader_epoch, min(2 * pause, _LAST_PAUSE_SECONDS)
        )

    def _on_leaving(self, partition: Partition) -> None:
        if partition.topic == self._topic:
            self._runtime.resign(partition.index)

    async def settle(self) -> None:
        self._count_partitions()
        while self._loading:
            await asyncio.wait(self._loading)

    def _count_partitions(self) -> None:
        """Use the actual partition count, since the setting may have changed after the topic was created."""
        topic = self._image.topics.get(self._topic)
        if topic is not None:
            self._runtime.partition_count = len(topic.partitions)
