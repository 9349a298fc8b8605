"""Recovery of damaged logs: in a cluster the broker fetches them again from their leaders."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.image.image_feed import PartitionKey
from ottla.metadata.cluster_image import NO_LEADER
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.lifecycle.failed_disks import FailedDisks

logger = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 1.0


class DamagedReplicas:
    """Restarts a damaged replica once another broker leads the partition.

    Invariant: a log is discarded only while another broker leads and this one is outside the ISR, so every committed
    record exists elsewhere. Its files are renamed, not deleted. Owner: the event loop.
    """

    def __init__(self, broker: Broker, disks: FailedDisks) -> None:
        self._id = broker.node_id
        self._image = broker.image
        self._replicas = broker.replicas
        self._disks = disks

    async def rebuild(self) -> None:
        while damaged := self._damaged():
            for key in filter(self._others_have, damaged):
                await self._start_anew(key)
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def _damaged(self) -> list[PartitionKey]:
        return [
            name
            for directory in self._replicas.log_directories
            if directory.online
            for name in directory.damaged_logs
            if name in self._image.partitions
        ]

    def _others_have(self, key: PartitionKey) -> bool:
        partition = self._image.partitions[key]
        return (
            self._id in partition.replicas
            and self._id not in partition.isr
            and partition.leader not in (self._id, NO_LEADER)
            and partition.leader in self._image.brokers
        )

    async def _start_anew(self, key: PartitionKey) -> None:
        topic = self._image.topics.get(key[0])
        if topic is None:
            return
        try:
            path = await asyncio.to_thread(self._replicas.set_aside, *key)
            logger.warning(
                "%s-%d is damaged here and is fetched again from broker %d. The damaged files are in %s: remove them "
                "when you do not need them",
                *key,
                self._image.partitions[key].leader,
                path,
            )
            await self._replicas.open_topic(topic)
            await self._disks.publish()
        except (OSError, KafkaError, StoreError) as error:
            logger.error("%s-%d could not be fetched again: %s", *key, error)
