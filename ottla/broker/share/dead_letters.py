"""Dead letters of share groups (KIP-1191): records that a group gave up, described in a topic of their own.

As in Kafka, the cluster writes dead letters with its own rights, whatever the members may do. Three settings keep it
from writing where it should not: the topic must allow dead letters (`errors.deadletterqueue.group.enable`), its name
must begin with `errors.deadletterqueue.topic.name.prefix`, and it must not begin with `__`.

Dead letters are written at least once: a broker that dies after the write and before the new state of the records is
stored leaves them to the next leader, which writes them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cluster.partitions.delayed_operations import when_committed
from ottla.coordinator.share.share_coordinator import ShareKey
from ottla.coordinator.share.share_partition import Undelivered
from ottla.log.append_check import InspectionNeeded, inspect
from ottla.log.cold_reads import cold_range
from ottla.log.files.descriptors import FileRegion
from ottla.metadata.cluster_image import NO_LEADER
from ottla.metadata.configs.group_configs import (
    DEAD_LETTER_COPY_RECORD,
    DEAD_LETTER_TOPIC,
    group_value,
)
from ottla.metadata.dynamic_configs.effective_config import TopicConfig
from ottla.protocol import share_dead_letters as headers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch, read_records

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.peers import Peers

logger = logging.getLogger(__name__)

AT_ONCE = 200
_AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
_PREFIX = "errors.deadletterqueue.topic.name.prefix"
_ENABLED = "errors.deadletterqueue.group.enable"
_ALL = -1
_PRODUCE_VERSION = 9  # names topics
# Kafka gives up after five attempts. This is longer than an election takes.
_PATIENCE_SECONDS = 120.0
_FIRST_PAUSE, _LAST_PAUSE = 0.05, 1.0
_READ_BYTES = 1024 * 1024


def dead_letter_topic(broker: Broker, group_id: str) -> str:
    """Return the name of the group's dead-letter topic, or an empty string."""
    configs = broker.image.group_configs.get(group_id, {})
    return str(group_value(broker.config, configs, DEAD_LETTER_TOPIC)).strip()


def refusal(broker: Broker, group_id: str, topic: str) -> str | None:
    """Return the reason why the topic cannot take dead letters of this group, in Kafka's order and words."""
    if not topic:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    where = f"for share group: {group_id}, topic: {topic}"
    if topic.startswith("__"):
        return f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {topic}."
    image = broker.image.topics.get(topic)
    if image is not None and not TopicConfig(broker.config, image.configs).get_bool(_ENABLED):
        return f"DLQ is not enabled on configured DLQ topic {where}."
    prefix = str(broker.config.get(_PREFIX))
    if not topic.startswith(prefix):
        return (
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: "
            f"{group_id}, topic: {topic}, prefix: {prefix}."
        )
    if image is None and not broker.config.get_bool(_AUTO_CREATE):
        return f"DLQ topic does not exist and auto create is disabled on cluster {where}."
    return None


class DeadLetterWriter:
    """Writes dead letters to local and remote partitions. Owner: the event loop."""

    def __init__(self, broker: Broker, peers: Peers, timeout_ms: int) -> None:
        self._broker = broker
        self._peers = peers
        self._timeout_ms = timeout_ms

    async def write(
        self,
        key: ShareKey,
        source: Partition,
        letters: Sequence[Undelivered],
        count_limit: int,
        is_wanted: Callable[[], bool],
    ) -> bool:
        """Write the letters, or log why that is impossible. Return False if `is_wanted` says so during a retry."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE_SECONDS
        pause = _FIRST_PAUSE
        copies: Mapping[int, Record] | None = None
        while True:
            topic = dead_letter_topic(self._broker, key.group_id)
            reason = refusal(self._broker, key.group_id, topic)
            if reason is not None:
                break
            if copies is None:
                copies = await self._copies(key.group_id, source, letters)
            try:
                index = await self._destination(topic, source.index)
                limit = self._max_message_bytes(topic)
                for batch in batches(
                    key.group_id, source, letters, copies, count_limit, self._broker.now_ms(), limit
                ):
                    await self._append(topic, index, batch)
            except (KafkaError, OSError) as error:
                may_pass = isinstance(error, OSError) or error.code.retriable
                if not may_pass or loop.time() + pause > deadline:
                    reason = f"Topic {topic} does not accept them: {error}"
                    break
            else:
                return True
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
            if not is_wanted():
                return False
        logger.error(
            "Group %s gave up %d records of %s-%d, and no dead letters are written (offsets %d to %d). %s",
            key.group_id,
            len(letters),
            source.topic,
            source.index,
            letters[0].offset,
            letters[-1].offset,
            reason,
        )
        return True

    # Internals

    async def _destination(self, topic: str, source_index: int) -> int:
        image = self._broker.image.topics.get(topic)
        if image is None:
            try:
                # Retention depends on the time at which a letter is written.
                configs = {_ENABLED: "true", "message.timestamp.type": "CreateTime"}
                await self._broker.topic_admin.create_topic(topic, configs=configs)
            except KafkaError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            image = self._broker.image.topics.get(topic)
        if image is None or not image.partitions:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return source_index % len(image.partitions)

    def _max_message_bytes(self, topic: str) -> int:
        image = self._broker.image.topics[topic]
        return TopicConfig(self._broker.config, image.configs).get_int("max.message.bytes")

    async def _append(self, topic: str, index: int, batch: bytearray) -> None:
        image = self._broker.image.partitions.get((topic, index))
        leader = NO_LEADER if image is None else image.leader
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        if leader == self._broker.node_id:
            await self._append_here(topic, index, batch)
            return
        data = PartitionProduceData(index=index, records=batch)
        request = ProduceRequest(
            acks=_ALL,
            timeout_ms=self._timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        response = await self._peers.request(leader, request, _PRODUCE_VERSION)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message)

    async def _append_here(self, topic: str, index: int, batch: bytearray) -> None:
        broker = self._broker
        partition = broker.replicas.leader(topic, index)
        partition.check_min_isr()
        try:
            info = partition.append(batch, broker.now_ms())
        except InspectionNeeded as needed:
            inspected = await broker.inspections.run(
                inspect, memoryview(batch), needed.config, broker.now_ms()
            )
            info = partition.append(inspected, broker.now_ms(), inspected=True)
        pending = when_committed(partition, info.last_offset + 1, self._timeout_ms)
        if pending is not None:
            await pending

    async def _copies(
        self, group_id: str, source: Partition, letters: Sequence[Undelivered]
    ) -> Mapping[int, Record]:
        """Return the records to copy, by offset. A record that cannot be read is left out."""
        configs = self._broker.image.group_configs.get(group_id, {})
        if not group_value(self._broker.config, configs, DEAD_LETTER_COPY_RECORD):
            return {}
        log = source.log
        wanted = {letter.offset for letter in letters}
        found: dict[int, Record] = {}
        read_to = -1
        try:
            for offset in sorted(wanted):
                if offset < max(read_to, log.log_start_offset):
                    continue
                cold = cold_range(log, offset, _READ_BYTES)
                if cold is not None:
                    await asyncio.to_thread(cold.read)
                region = log.read(offset, _READ_BYTES, upto=log.log_end_offset, min_one=True)
                records, read_to = await asyncio.to_thread(_decode, region, wanted)
                found.update(records)
        except (KafkaError, OSError) as error:
            logger.warning(
                "Dead letters of %s-%d have no key and value: %s", source.topic, source.index, error
            )
        return found


def _decode(region: FileRegion, wanted: set[int]) -> tuple[dict[int, Record], int]:
    """Return the wanted records of a region, and the offset behind it. Runs in a thread."""
    found, end = {}, -1
    for header, records in read_records(region.read()):
        found.update({record.offset: record for record in records if record.offset in wanted})
        end = header.next_offset
    return found, end


# Letters as records


def batches(
    group_id: str,
    source: Partition,
    letters: Sequence[Undelivered],
    copies: Mapping[int, Record],
    count_limit: int,
    now_ms: int,
    limit: int,
) -> Iterator[bytearray]:
    """Build batches of at most `limit` bytes. A letter that is too large goes without the copy of its record."""

    def letter(undelivered: Undelivered) -> Record:
        offset, deliveries, rejected = undelivered
        if rejected is None:  # the state does not tell; Kafka guesses in the same way
            rejected = deliveries < count_limit
        texts = {
            headers.TOPIC: source.topic,
            headers.PARTITION: str(source.index),
            headers.OFFSET: str(offset),
            headers.GROUP: group_id,
            headers.DELIVERY_COUNT: str(deliveries),
            headers.MESSAGE: headers.REJECTED if rejected else headers.COUNT_EXCEEDED,
        }
        copy = copies.get(offset)
        key, value = (None, None) if copy is None else (copy.key, copy.value)
        return Record(0, now_ms, key, value, [(name, text.encode()) for name, text in texts.items()])

    yield from _fitting([letter(each) for each in letters], limit)


def _fitting(records: list[Record], limit: int) -> Iterator[bytearray]:
    batch = build_batch(records)
    if len(batch) <= limit:
        yield batch
    elif len(records) > 1:
        half = len(records) // 2
        yield from _fitting(records[:half], limit)
        yield from _fitting(records[half:], limit)
    else:
        records[0].key = records[0].value = None
        yield build_batch(records)
