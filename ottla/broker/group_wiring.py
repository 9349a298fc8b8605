"""Connects the group coordinator to this broker's partitions, topics and settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.state_log import CONSUMER_OFFSETS_TOPIC, KeyValue
from ottla.metadata.broker_config import BrokerConfig
from ottla.metadata.cluster_image import ClusterImage
from ottla.protocol.records import BatchHeader, Record, build_batch, read_records

if TYPE_CHECKING:
    from ottla.cluster.partition import Partition
    from ottla.cluster.replicas import Replicas

_READ_BYTES = 1024 * 1024


def group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        max_size=config.get_int("group.max.size"),
        offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
        offsets_topic_num_partitions=config.get_int("offsets.topic.num.partitions"),
    )


class PartitionStateLog:
    """A coordinator's internal topic, kept in this broker's own partitions."""

    def __init__(self, replicas: Replicas, topic: str = CONSUMER_OFFSETS_TOPIC) -> None:
        self._replicas = replicas
        self._topic = topic

    def append(self, partition: int, records: Sequence[KeyValue], now_ms: int) -> Awaitable[None] | None:
        held = self._replicas.leader(self._topic, partition)
        batch = build_batch([Record(0, now_ms, key, value) for key, value in records])
        held.append(batch, now_ms, from_client=False)
        return None

    def append_transactional(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        producer_id: int,
        producer_epoch: int,
    ) -> Awaitable[None] | None:
        held = self._replicas.leader(self._topic, partition)
        batch = build_batch(
            [Record(0, now_ms, key, value) for key, value in records],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,  # a coordinator's batches are not counted, Kafka writes 0 as well
            transactional=True,
        )
        held.append(batch, now_ms, from_client=False)
        return None

    async def read(self, partition: int) -> AsyncIterator[tuple[BatchHeader, Sequence[Record]]]:
        held = self._replicas.leader(self._topic, partition)
        offset, end = held.log.log_start_offset, held.log.log_end_offset
        while offset < end:
            batches = await asyncio.to_thread(_read, held, offset, end)
            if not batches:
                return  # compaction has removed what was at the end
            for header, records in batches:
                yield header, records
                offset = header.next_offset


def _read(partition: Partition, offset: int, end: int) -> list[tuple[BatchHeader, list[Record]]]:
    region = partition.log.read(offset, _READ_BYTES, upto=end, min_one=True)
    return list(read_records(region.read()))


class Coordinator(Protocol):
    """What a coordinator is told of the partitions of its internal topic."""

    def set_partition_count(self, partitions: int) -> None: ...
    async def become_leader(self, partition: int, leader_epoch: int) -> None: ...
    def resign(self, partition: int, leader_epoch: int | None = None) -> None: ...


class CoordinatorLeadership:
    """Keeps what a coordinator knows where the leaders of its topic's partitions are. Owner: the event loop."""

    def __init__(self, coordinator: Coordinator, topic: str, replicas: Replicas, image: ClusterImage) -> None:
        self._coordinator = coordinator
        self._topic = topic
        self._replicas = replicas
        self._image = image
        self._loading: set[asyncio.Task[None]] = set()
        replicas.on_leading.append(self._on_leading)
        replicas.on_leaving.append(self._on_leaving)

    async def start(self) -> None:
        """Load all partitions that are led already."""
        self._count_partitions()
        for partition in self._replicas.topic(self._topic).values():
            if partition.is_leader:
                await self._coordinator.become_leader(partition.index, partition.leader_epoch)

    def _on_leading(self, partition: Partition) -> None:
        if partition.topic != self._topic:
            return
        loading = self._coordinator.become_leader(partition.index, partition.leader_epoch)
        task = asyncio.get_running_loop().create_task(loading)
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    def _on_leaving(self, partition: Partition) -> None:
        if partition.topic == self._topic:
            self._coordinator.resign(partition.index)

    async def settle(self) -> None:
        """Wait for what is being loaded."""
        self._count_partitions()
        while self._loading:
            await asyncio.wait(self._loading)

    def _count_partitions(self) -> None:
        """Its state is spread over the partitions that are there, whatever the setting says by now."""
        topic = self._image.topics.get(self._topic)
        if topic is not None:
            self._coordinator.set_partition_count(len(topic.partitions))
