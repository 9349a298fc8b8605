"""Coordinators on this broker: loaded with leadership of their partitions, stored in its internal topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cluster.partitions.delayed_operations import when_committed
from ottla.coordinator.runtime import CoordinatorRuntime, KeyValue
from ottla.log.cold_reads import cold_range
from ottla.log.files.descriptors import FileRegion
from ottla.metadata.cluster_image import ClusterImage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record, build_batch, read_records

if TYPE_CHECKING:
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.replicas import Replicas

# A coordinator's internal topic, stored in this broker's own partitions.

_READ_BYTES = 1024 * 1024


class PartitionStateLog:
    """Implements `StateLog` and `PrunableLog`. Owner: the event loop."""

    def __init__(self, replicas: Replicas, topic: str, timeout_ms: int = 5_000) -> None:
        self._replicas = replicas
        self._topic = topic
        self._timeout_ms = timeout_ms

    def append(self, partition: int, records: Sequence[KeyValue], now_ms: int) -> Awaitable[None] | None:
        batch = build_batch([Record(0, now_ms, key, value) for key, value in records])
        return self._append(partition, batch, now_ms)

    def _append(self, partition: int, batch: bytearray, now_ms: int) -> Awaitable[None] | None:
        held = self._replicas.leader(self._topic, partition)
        held.check_min_isr()
        info = held.append(batch, now_ms, from_client=False)
        return self._wait(held, info.last_offset + 1)

    def wait_committed(self, partition: int) -> Awaitable[None] | None:
        held = self._replicas.leader(self._topic, partition)
        return self._wait(held, held.log.log_end_offset)

    def _wait(self, held: Partition, offset: int) -> Awaitable[None] | None:
        return when_committed(held, offset, self._timeout_ms)

    def append_transactional(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> Awaitable[None] | None:
        batch = build_batch(
            [Record(0, now_ms, key, value) for key, value in records],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,  # Coordinator batches have no sequence; Kafka writes 0 as well.
            transactional=True,
        )
        return self._append(partition, batch, now_ms)

    def end_offset(self, partition: int) -> int:
        return self._led(partition).log.log_end_offset

    def _led(self, partition: int) -> Partition:
        """Return a partition for reading, without checking the lease. Writes check the lease themselves."""
        held = self._replicas.topic(self._topic).get(partition)
        if held is None or not held.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return held

    def delete_before(self, partition: int, offset: int) -> None:
        held = self._replicas.leader(self._topic, partition)
        if offset > held.log.log_start_offset:
            held.delete_records(offset)

    async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        held = self._led(partition)
        offset, end = held.log.log_start_offset, held.log.log_end_offset
        while offset < end:
            cold = cold_range(held.log, offset, _READ_BYTES)
            if cold is not None:
                await asyncio.to_thread(cold.read)
            region = held.log.read(offset, _READ_BYTES, upto=end, min_one=True)
            batches = await asyncio.to_thread(_decode, region)
            if not batches:
                return  # compaction has removed the last records
            for header, records in batches:
                yield header, records
                offset = header.next_offset


def _decode(region: FileRegion) -> list[tuple[BatchHeader, list[Record]]]:
    """Decode batches in a thread. The region keeps its file open, and no log state is touched."""
    return list(read_records(region.read()))


# Load and unload a coordinator's partitions as this broker gains and loses their leadership.

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
