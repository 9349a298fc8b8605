"""Connects the group coordinator to this broker's partitions, topics and settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.groups.config import GroupConfig, Pace
from ottla.coordinator.groups.consumer.assignors import ASSIGNORS
from ottla.coordinator.groups.topics import Topic
from ottla.coordinator.runtime.state_log import CONSUMER_OFFSETS_TOPIC, KeyValue
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.group_configs import group_int
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import BatchHeader, Record, build_batch, read_records

if TYPE_CHECKING:
    from ottla.cluster.partition import Partition
    from ottla.cluster.replicas import Replicas

logger = logging.getLogger(__name__)

_READ_BYTES = 1024 * 1024
# Between two attempts to read a partition.
_FIRST_PAUSE_SECONDS = 0.5
_LAST_PAUSE_SECONDS = 30.0


def group_config(config: BrokerConfig, image: ClusterImage) -> GroupConfig:
    migration = config.get_str("group.consumer.migration.policy").lower()
    return GroupConfig(
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        max_size=config.get_int("group.max.size"),
        offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
        offsets_topic_num_partitions=config.get_int("offsets.topic.num.partitions"),
        consumer_assignors=assignors(config),
        consumer_max_size=config.get_int("group.consumer.max.size"),
        share_max_size=config.get_int("group.share.max.size"),
        consumer_upgrade=migration in ("upgrade", "bidirectional"),
        consumer_downgrade=migration in ("downgrade", "bidirectional"),
        pace_of=partial(pace_of, config, image),
    )


def pace_of(config: BrokerConfig, image: ClusterImage, group_type: str, group_id: str) -> Pace:
    own = image.group_configs.get(group_id, {})
    return Pace(
        heartbeat_interval_ms=group_int(config, own, f"{group_type}.heartbeat.interval.ms"),
        session_timeout_ms=group_int(config, own, f"{group_type}.session.timeout.ms"),
        assignment_interval_ms=group_int(config, own, f"{group_type}.assignment.interval.ms"),
    )


def assignors(config: BrokerConfig) -> tuple[str, ...]:
    """Those of `group.consumer.assignors` that there are; others are Java classes, and left out."""
    named = [name for name in config.get_list("group.consumer.assignors") if name in ASSIGNORS]
    return tuple(named) or ("uniform",)


class ImageTopics:
    """The topics of the cluster image, as coordinators see them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    @property
    def version(self) -> int:
        return self._image.version

    def names(self) -> Collection[str]:
        return self._image.topics.keys()

    def by_name(self, name: str) -> Topic | None:
        return _topic(self._image.topics.get(name))

    def by_id(self, topic_id: bytes) -> Topic | None:
        return _topic(self._image.topics_by_id.get(topic_id))


def _topic(topic: TopicImage | None) -> Topic | None:
    return None if topic is None else Topic(topic.name, topic.topic_id, len(topic.partitions))


class PartitionStateLog:
    """A coordinator's internal topic, kept in this broker's own partitions."""

    def __init__(
        self, replicas: Replicas, topic: str = CONSUMER_OFFSETS_TOPIC, timeout_ms: int = 5_000
    ) -> None:
        self._replicas = replicas
        self._topic = topic
        self._timeout = timeout_ms / 1000

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
        pending = held.wait_committed(offset)
        if pending is not None:
            loop = pending.get_loop()
            timer = loop.call_later(self._timeout, _time_out, pending)
            pending.add_done_callback(lambda _: timer.cancel())
        return pending

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
            base_sequence=0,  # a coordinator's batches are not counted, Kafka writes 0 as well
            transactional=True,
        )
        return self._append(partition, batch, now_ms)

    def end_offset(self, partition: int) -> int:
        return self._led(partition).log.log_end_offset

    def _led(self, partition: int) -> Partition:
        """To read, without the lease: what is led for certain by then is looked at when something is written."""
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
            batches = await asyncio.to_thread(_read, held, offset, end)
            if not batches:
                return  # compaction has removed what was at the end
            for header, records in batches:
                yield header, records
                offset = header.next_offset


def _time_out(pending: asyncio.Future[None]) -> None:
    if not pending.done():
        pending.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        pending.exception()  # not everybody who writes waits for the end of it


def _read(partition: Partition, offset: int, end: int) -> list[tuple[BatchHeader, list[Record]]]:
    region = partition.log.read(offset, _READ_BYTES, upto=end, min_one=True)
    return list(read_records(region.read()))


class Coordinator(Protocol):
    """What a coordinator is told of the partitions of its internal topic."""

    def set_partition_count(self, partitions: int) -> None: ...
    async def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Raises what keeps it from reading the partition; then it can be asked again."""

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
            return  # somebody else reads it, or it is read for another epoch
        task = asyncio.get_running_loop().create_task(self._load(partition, leader_epoch, pause))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _load(
        self, partition: Partition, leader_epoch: int, pause: float = _FIRST_PAUSE_SECONDS
    ) -> None:
        """Let it be read; what fails is tried again after a pause, which nobody waits for."""
        try:
            await self._coordinator.become_leader(partition.index, leader_epoch)
            return
        except KafkaError as error:
            logger.error("%s-%d cannot be read and is tried again: %s", self._topic, partition.index, error)
        except Exception:
            logger.exception("%s-%d cannot be read and is tried again", self._topic, partition.index)
        asyncio.get_running_loop().call_later(
            pause, self._begin_to_load, partition, leader_epoch, min(2 * pause, _LAST_PAUSE_SECONDS)
        )

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
