"""Transactions on this broker: admission of partitions, and the markers that end a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.cluster.partitions.delayed_operations import when_committed
from ottla.coordinator.groups.group_coordinator import GroupCoordinator
from ottla.coordinator.runtime import ProducerEpoch, partition_for
from ottla.coordinator.transactions.coordinator import Marker
from ottla.coordinator.transactions.transaction import TopicPartition
from ottla.metadata.nodes import GROUP_METADATA_TOPIC, INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from ottla.protocol.batch_header import BATCH_OVERHEAD
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.broker import Broker
    from ottla.cluster.partitions.partition import Partition
    from ottla.cluster.peers import Peers
    from ottla.cluster.replicas import Replicas
    from ottla.metadata.cluster_image import ClusterImage

# Admission of transactional writes: a partition must belong to the transaction before the first batch is appended.
#
# A version 2 producer (KIP-890) adds a partition by writing to it; a version 1 producer must have added it
# before. With a local coordinator the check never waits, so the transaction cannot end between check and
# append. With a remote coordinator, a marker that arrives during the check voids the result, and the
# producer retries.

_ATTRIBUTES_LOW = 22
_TRANSACTIONAL = 0x10
_PRODUCER = Struct(">qhi").unpack_from  # id, epoch, base sequence
_PRODUCER_AT = 43
_TOPIC_IDS = 13
_ADD_PARTITIONS_VERSION = 5
_COORDINATOR_AWAY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Name = tuple[str, int]
Refused = dict[Name, KafkaError]
Codes = dict[Name, ErrorCode]


class _Api(NamedTuple):
    """Version-dependent behaviour of an API that writes in transactions."""

    adds_since: int
    knows_abortable_since: int
    # Old clients do not retry coordinator errors. Kafka returns this error instead, which they do retry.
    retried: ErrorCode

    def refusal(self, code: ErrorCode, version: int) -> KafkaError:
        if code is ErrorCode.PRODUCER_FENCED:
            return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        if code is ErrorCode.TRANSACTION_ABORTABLE and version < self.knows_abortable_since:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < self.adds_since:
            return KafkaError(self.retried)
        return KafkaError(self.retried if code in _COORDINATOR_AWAY else code)


_PRODUCE = _Api(12, 11, ErrorCode.NOT_ENOUGH_REPLICAS)
_TXN_OFFSET_COMMIT = _Api(5, 4, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def is_transactional(records: memoryview | None) -> bool:
    return (
        records is not None
        and len(records) >= BATCH_OVERHEAD
        and records[_ATTRIBUTES_LOW] & _TRANSACTIONAL != 0
    )


def admit_produce(broker: Broker, request: ProduceRequest, version: int) -> Refused | Awaitable[Refused]:
    """Return the partitions of a transactional request that must not be written, each with its error."""
    refused: Refused = {}
    asked: dict[ProducerEpoch, dict[Name, Partition]] = {}
    adds = version >= _PRODUCE.adds_since
    for topic in request.topic_data:
        for data in topic.partition_data:
            if not is_transactional(data.records):
                continue
            try:
                if version >= _TOPIC_IDS:
                    partition = broker.replicas.leader_by_id(topic.topic_id, data.index)
                else:
                    partition = broker.replicas.leader(topic.name, data.index)
            except KafkaError:
                continue  # the append reports the error
            if partition.topic in INTERNAL_TOPICS:
                continue  # the append rejects it
            producer_id, epoch, sequence = _PRODUCER(data.records, _PRODUCER_AT)
            producers = partition.log.producers
            if producers.has_open_transaction(producer_id, epoch):
                continue
            name = (partition.topic, partition.index)
            if adds and sequence and producer_id not in producers.producers:
                # Earlier batches are still in flight, or were rejected.
                refused[name] = KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            else:
                asked.setdefault(ProducerEpoch(producer_id, epoch), {})[name] = partition
    waiting: list[Awaitable[Codes]] = []
    for producer, partitions in asked.items():
        codes = _admit(broker, request.transactional_id or "", producer, partitions, adds=adds)
        if isinstance(codes, dict):
            _refuse(refused, codes, version)
        else:
            waiting.append(codes)
    return _when_admitted(waiting, refused, version) if waiting else refused


def _refuse(refused: Refused, codes: Codes, version: int) -> None:
    for name, code in codes.items():
        if code:
            refused[name] = _PRODUCE.refusal(code, version)


async def _when_admitted(waiting: list[Awaitable[Codes]], refused: Refused, version: int) -> Refused:
    for codes in waiting:
        _refuse(refused, await codes, version)
    return refused


def admit_offsets(
    broker: Broker,
    partition: Partition,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    version: int,
) -> Awaitable[None] | None:
    """Check an offset commit, which writes to a partition of `__consumer_offsets`. Raises KafkaError to reject."""
    if partition.log.producers.has_open_transaction(producer_id, producer_epoch):
        return None
    codes = _admit(
        broker,
        transactional_id,
        ProducerEpoch(producer_id, producer_epoch),
        {(GROUP_METADATA_TOPIC, partition.index): partition},
        adds=version >= _TXN_OFFSET_COMMIT.adds_since,
    )
    if not isinstance(codes, dict):
        return _when_offsets_admitted(codes, version)
    _raise_refusal(codes, version)
    return None


async def _when_offsets_admitted(codes: Awaitable[Codes], version: int) -> None:
    _raise_refusal(await codes, version)


def _raise_refusal(codes: Codes, version: int) -> None:
    for code in codes.values():
        if code:
            raise _TXN_OFFSET_COMMIT.refusal(code, version)


# Requests to the transaction coordinator


def _admit(
    broker: Broker,
    transactional_id: str,
    producer: ProducerEpoch,
    partitions: Mapping[Name, Partition],
    *,
    adds: bool,
) -> Codes | Awaitable[Codes]:
    """Add partitions to a transaction or verify them. Return an error code for each partition, NONE if admitted."""
    if not adds and not broker.verify_transactions:
        return {}
    coordinator = _remote_coordinator(broker, transactional_id)
    if coordinator is not None:
        before = {name: partition.log.producers.markers for name, partition in partitions.items()}
        return _admit_at(broker, coordinator, transactional_id, producer, partitions, before, adds=adds)
    if not adds:
        verify = broker.transactions.verify_partition
        return {name: verify(transactional_id, *producer, name) for name in partitions}
    try:
        pending = broker.transactions.add_partitions(transactional_id, *producer, partitions, 2)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return {} if pending is None else _when_added(pending, partitions)


async def _when_added(pending: Awaitable[None], partitions: Mapping[Name, Partition]) -> Codes:
    try:
        await pending
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return {}


def _remote_coordinator(broker: Broker, transactional_id: str) -> int | None:
    topic = broker.image.topics.get(TRANSACTION_STATE_TOPIC)
    if topic is None:
        return None
    partition = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
    if partition is None or partition.leader in (broker.node_id, -1):
        return None
    return partition.leader


async def _admit_at(
    broker: Broker,
    coordinator: int,
    transactional_id: str,
    producer: ProducerEpoch,
    partitions: Mapping[Name, Partition],
    markers_before: Mapping[Name, int],
    *,
    adds: bool,
) -> Codes:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in partitions:
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=not adds,
        topics=list(topics.values()),
    )
    codes = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        response = await broker.peers.request(
            coordinator, AddPartitionsToTxnRequest(transactions=[transaction]), _ADD_PARTITIONS_VERSION
        )
    except OSError:
        return codes
    if response.error_code:
        return dict.fromkeys(partitions, ErrorCode(response.error_code))
    for result in response.results_by_transaction:
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                codes[topic.name, each.partition_index] = ErrorCode(each.partition_error_code)
    for key, partition in partitions.items():
        if not codes[key] and partition.log.producers.markers != markers_before[key]:
            codes[key] = ErrorCode.CONCURRENT_TRANSACTIONS
    return codes


# Transaction markers: written to local and remote partitions, and applied to groups.

_VERSION = 2
_COMMIT_MS = 5_000
_NO_LEADER = -1


class PartitionMarkers:
    """Writes markers to partitions and applies committed offsets. Owner: the event loop."""

    def __init__(
        self,
        replicas: Replicas,
        groups: GroupCoordinator,
        now_ms: Callable[[], int],
        broker_id: int,
        image: ClusterImage,
        peers: Peers,
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._now_ms = now_ms
        self._broker_id = broker_id
        self._image = image
        self._peers = peers

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in partitions:
            known = self._image.partitions.get(name)
            leader = self._broker_id if known is None else known.leader
            by_leader.setdefault(leader, []).append(name)
        if list(by_leader) == [self._broker_id]:
            return self.write_here(marker, partitions)
        return self._write_everywhere(marker, partitions, by_leader)

    async def _write_everywhere(
        self,
        marker: Marker,
        partitions: Sequence[TopicPartition],
        by_leader: dict[int, list[TopicPartition]],
    ) -> list[ErrorCode]:
        found: dict[TopicPartition, ErrorCode] = {}
        answers = await asyncio.gather(
            *(self._write_at(leader, marker, names) for leader, names in by_leader.items())
        )
        for answer in answers:
            found |= answer
        return [found[name] for name in partitions]

    async def _write_at(
        self, leader: int, marker: Marker, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if leader == self._broker_id:
            errors = self.write_here(marker, partitions)
            if not isinstance(errors, list):
                errors = await errors
            return dict(zip(partitions, errors, strict=True))
        if leader == _NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE)
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for topic, index in partitions:
            topics.setdefault(topic, WritableTxnMarkerTopic(name=topic)).partition_indexes.append(index)
        asked = WritableTxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.commit,
            topics=list(topics.values()),
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        found = dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            response = await self._peers.request(leader, WriteTxnMarkersRequest(markers=[asked]), _VERSION)
        except OSError:
            return found
        for result in response.markers:
            for answered in result.topics:
                for each in answered.partitions:
                    found[answered.name, each.partition_index] = ErrorCode(each.error_code)
        return found

    def write_here(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Write the marker to local partitions. Return an awaitable if other replicas have yet to fetch it."""
        results = [self._write_one(marker, topic, index) for topic, index in partitions]
        errors = [result for result in results if isinstance(result, ErrorCode)]
        return errors if len(errors) == len(results) else _all_of(results)

    def _write_one(self, marker: Marker, topic: str, index: int) -> ErrorCode | Awaitable[ErrorCode]:
        try:
            partition = self._replicas.leader(topic, index)
            if topic == GROUP_METADATA_TOPIC:
                self._groups.offsets.check_marker(index)
            partition.check_min_isr()
            info = partition.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                now_ms=self._now_ms(),
            )
            pending = when_committed(partition, info.last_offset + 1, _COMMIT_MS)
        except KafkaError as error:
            return error.code
        if pending is not None:
            return self._when_committed(pending, marker, topic, index)
        self._apply(marker, topic, index)
        return ErrorCode.NONE

    async def _when_committed(
        self, pending: asyncio.Future[None], marker: Marker, topic: str, index: int
    ) -> ErrorCode:
        try:
            await pending
        except KafkaError as error:
            return error.code
        self._apply(marker, topic, index)
        return ErrorCode.NONE

    def _apply(self, marker: Marker, topic: str, index: int) -> None:
        if topic == GROUP_METADATA_TOPIC:
            self._groups.offsets.end_transaction(index, marker.producer_id, marker.commit)


async def _all_of(results: list[ErrorCode | Awaitable[ErrorCode]]) -> list[ErrorCode]:
    return [result if isinstance(result, ErrorCode) else await result for result in results]
