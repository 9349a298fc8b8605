"""The metadata of remote segments in the topic `__remote_log_metadata` (Kafka's TopicBasedRemoteLogMetadataManager).

Leaders append records to the metadata partition that Kafka's hash chooses. Every broker with replicas of tiered
partitions reads those metadata partitions from their leaders, from the beginning, and keeps the result in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

from ottla.cluster.background_tasks import start_task
from ottla.cluster.partitions.delayed_operations import when_committed
from ottla.cluster.partitions.partition import Partition
from ottla.cluster.peers import Peers
from ottla.cluster.replicas import Replicas
from ottla.log.cold_reads import cold_range
from ottla.log.remote.segment_cache import RemoteSegments
from ottla.log.remote.segment_metadata import (
    PartitionDeleteState,
    RemoteLogSegment,
    SegmentState,
    TopicIdPartition,
    from_record,
    metadata_partition,
    partition_of,
    to_record,
    to_update,
)
from ottla.metadata.cluster_image import ClusterImage
from ottla.protocol.codec import MalformedMessage
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import REMOTE_LOG_METADATA_TOPIC
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch, read_records
from ottla.protocol.remote_log_records import (
    RemoteLogMetadataRecord,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    decode_record,
    encode_record,
)

logger = logging.getLogger(__name__)

_ACKS_ALL = -1
_PRODUCE_VERSION = 11
_FETCH_VERSION = 12
_FETCH_BYTES = 1024 * 1024
_POLL_SECONDS = 0.05
_REMOTE_WAIT_MS = 500
_RETRY_SECONDS = 1.0
_TIMEOUT_MS = 30_000


class _Reading:
    """Progress in one metadata partition."""

    __slots__ = ("changed", "committed", "offset")

    def __init__(self) -> None:
        self.offset = 0  # next one to read
        self.committed = -1  # end of the committed records, as far as known; -1: not known yet
        self.changed = asyncio.Event()


class RemoteMetadataLog:
    """Invariant: `segments` reflects a prefix of the metadata topic, per metadata partition. Owner: the event loop."""

    def __init__(
        self,
        broker_id: int,
        replicas: Replicas,
        image: ClusterImage,
        peers: Peers,
        create_topic: Callable[[], Awaitable[None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._image = image
        self._peers = peers
        self._create_topic = create_topic
        self._now_ms = now_ms
        self._segments: dict[TopicIdPartition, RemoteSegments] = {}
        self._readings: dict[int, _Reading] = {}
        self._followed: set[int] = set()  # brokers from which metadata is read
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: set[str] = set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._peers.close()

    # Lookup

    def segments(self, partition: TopicIdPartition) -> RemoteSegments:
        return self._segments.setdefault(partition, RemoteSegments())

    def known(self) -> Collection[TopicIdPartition]:
        return [partition for partition, segments in self._segments.items() if len(segments)]

    @property
    def exists(self) -> bool:
        return self._count > 0

    def owns(self, partition: TopicIdPartition) -> bool:
        """Return True if this broker leads the metadata partition of a user partition."""
        held = self._held(self._metadata_partition(partition))
        return held is not None and held.is_leader

    @property
    def _count(self) -> int:
        topic = self._image.topics.get(REMOTE_LOG_METADATA_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    def _metadata_partition(self, partition: TopicIdPartition) -> int:
        return metadata_partition(partition, self._count) if self._count else -1

    def _held(self, index: int) -> Partition | None:
        return self._replicas.topic(REMOTE_LOG_METADATA_TOPIC).get(index)

    # Reading

    async def follow(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Start to read the metadata of these partitions, and of all metadata partitions led here."""
        if not self._count:
            await self._create_topic()
        wanted = {self._metadata_partition(partition) for partition in partitions}
        wanted |= {
            each.index for each in self._replicas.topic(REMOTE_LOG_METADATA_TOPIC).values() if each.is_leader
        }
        for index in wanted - self._readings.keys() - {-1}:
            self._readings[index] = _Reading()
            start_task(self._tasks, self._read(index))

    async def caught_up(self, partition: TopicIdPartition, timeout: float = 10.0) -> bool:
        """Wait until everything is read that was committed when this was called. Return False if it takes too long."""
        index = self._metadata_partition(partition)
        reading = self._readings.get(index)
        if reading is None:
            return False
        reading.committed = -1
        try:
            async with asyncio.timeout(timeout):
                while reading.committed < 0 or reading.offset < reading.committed:
                    reading.changed.clear()
                    await reading.changed.wait()
        except TimeoutError:
            return False
        return True

    async def _read(self, index: int) -> None:
        reading = self._readings[index]
        while True:
            try:
                leader = self._image.partitions.get((REMOTE_LOG_METADATA_TOPIC, index))
                if leader is None or leader.leader < 0:
                    await asyncio.sleep(_RETRY_SECONDS)
                elif leader.leader == self._broker_id:
                    await self._read_here(index, reading)
                else:
                    await self._read_from(leader.leader, leader.leader_epoch, index, reading)
                self._logged.discard(f"read-{index}")
            except (OSError, KafkaError) as error:
                self._log_once(f"read-{index}", "Cannot read %s-%d: %s", index, error)
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                logger.exception("Cannot read %s-%d", REMOTE_LOG_METADATA_TOPIC, index)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _read_here(self, index: int, reading: _Reading) -> None:
        held = self._held(index)
        if held is None or not held.is_leader:
            await asyncio.sleep(_POLL_SECONDS)
            return
        log, upto = held.log, held.high_watermark
        leading = held.leading
        is_settled = leading is None or upto >= leading.epoch_start_offset
        offset = max(reading.offset, log.log_start_offset)
        if offset < upto:
            cold = cold_range(log, offset, _FETCH_BYTES, whole=True)
            if cold is not None:
                await asyncio.to_thread(cold.read)
            region = log.read(offset, _FETCH_BYTES, upto=upto, min_one=True)
            self._apply(index, reading, region.read())
        if is_settled:
            self._note_committed(reading, upto)
        if reading.offset >= upto:
            await asyncio.sleep(_POLL_SECONDS)

    async def _read_from(self, broker_id: int, leader_epoch: int, index: int, reading: _Reading) -> None:
        asked = FetchPartition(
            partition=index,
            current_leader_epoch=leader_epoch,
            fetch_offset=reading.offset,
            partition_max_bytes=_FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            topics=[FetchTopic(topic=REMOTE_LOG_METADATA_TOPIC, partitions=[asked])],
        )
        response = await self._peers.request(broker_id, request, _FETCH_VERSION)
        [answer] = response.responses[0].partitions
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and reading.offset < answer.log_start_offset:
            reading.offset = answer.log_start_offset
            return
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        if answer.records:
            self._apply(index, reading, bytes(answer.records))
        self._note_committed(reading, answer.high_watermark)
        if reading.offset >= answer.high_watermark:
            await asyncio.sleep(_REMOTE_WAIT_MS / 1000)

    def _note_committed(self, reading: _Reading, offset: int) -> None:
        if offset > reading.committed:
            reading.committed = offset
        reading.changed.set()

    def _apply(self, index: int, reading: _Reading, data: bytes) -> None:
        for header, records in read_records(data):
            if header.base_offset < reading.offset:
                continue
            for record in records if not header.is_control else ():
                try:
                    decoded = None if record.value is None else decode_record(record.value)
                    if decoded is not None:
                        self._replay(decoded)
                except (MalformedMessage, ValueError) as error:
                    # Anybody with the right may write to the topic.
                    logger.error(
                        "%s-%d has a record at offset %d that cannot be used: %s",
                        REMOTE_LOG_METADATA_TOPIC,
                        index,
                        record.offset,
                        error,
                    )
            reading.offset = header.next_offset
        reading.changed.set()

    def _replay(self, record: RemoteLogMetadataRecord) -> None:
        if isinstance(record, RemoteLogSegmentMetadataRecord):
            segment = from_record(record)
            self.segments(segment.partition).add(segment)
        elif isinstance(record, RemoteLogSegmentMetadataUpdateRecord):
            name = record.remote_log_segment_id
            self.segments(partition_of(name.topic_id_partition)).update(
                bytes(name.id),
                SegmentState(record.remote_log_segment_state),
                record.broker_id,
                record.event_timestamp_ms,
            )
        elif record.remote_partition_delete_state == PartitionDeleteState.DELETE_PARTITION_FINISHED:
            self._segments.pop(partition_of(record.topic_id_partition), None)

    # Writing

    async def add(self, segment: RemoteLogSegment) -> None:
        await self._publish(segment.partition, to_record(segment))

    async def update(self, segment: RemoteLogSegment, state: SegmentState) -> bool:
        """Record a new state. Return True if it took effect; another leader's change may have been earlier."""
        changed = segment.in_state(state, self._broker_id, self._now_ms())
        await self._publish(segment.partition, to_update(changed))
        current = self.segments(segment.partition).get(segment.id)
        if current is None:
            return state is SegmentState.DELETE_SEGMENT_FINISHED
        return current.state is state

    async def _publish(self, partition: TopicIdPartition, record: RemoteLogMetadataRecord) -> None:
        """Append a record, and wait until it is committed and replayed here. Raises KafkaError or OSError."""
        index = self._metadata_partition(partition)
        state = self._image.partitions.get((REMOTE_LOG_METADATA_TOPIC, index))
        if state is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{REMOTE_LOG_METADATA_TOPIC} does not exist"
            )
        now_ms = self._now_ms()
        batch = build_batch([Record(0, now_ms, None, encode_record(record))])
        if state.leader == self._broker_id:
            offset = await self._append_here(index, batch, now_ms)
        else:
            offset = await self._append_at(state.leader, index, batch)
        reading = self._readings[index]
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            while reading.offset <= offset:
                reading.changed.clear()
                await reading.changed.wait()

    async def _append_here(self, index: int, batch: bytearray, now_ms: int) -> int:
        held = self._replicas.leader(REMOTE_LOG_METADATA_TOPIC, index)
        held.check_min_isr()
        info = held.append(batch, now_ms, from_client=False)
        committed = when_committed(held, info.last_offset + 1, _TIMEOUT_MS)
        if committed is not None:
            await committed
        return info.last_offset

    async def _append_at(self, broker_id: int, index: int, batch: bytearray) -> int:
        data = PartitionProduceData(index=index, records=batch)
        topic = TopicProduceData(name=REMOTE_LOG_METADATA_TOPIC, partition_data=[data])
        request = ProduceRequest(acks=_ACKS_ALL, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
        response = await self._peers.request(broker_id, request, _PRODUCE_VERSION)
        [answer] = response.responses[0].partition_responses
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
        offset: int = answer.base_offset
        return offset

    def _log_once(self, key: str, message: str, index: int, error: Exception) -> None:
        if key not in self._logged:
            self._logged.add(key)
            logger.warning(message, REMOTE_LOG_METADATA_TOPIC, index, error)
