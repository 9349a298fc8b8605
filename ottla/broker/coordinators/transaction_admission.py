"""Admission of transactional writes: a partition must belong to the transaction before the first batch is appended.

A version 2 producer (KIP-890) adds a partition by writing to it; a version 1 producer must have added it before. With a
local coordinator the check never waits, so the transaction cannot end between check and append. With a remote
coordinator, a marker that arrives during the check voids the result, and the producer retries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.runtime.coordinator_runtime import ProducerEpoch
from ottla.coordinator.runtime.state_log import partition_for
from ottla.metadata.topic_names import GROUP_METADATA_TOPIC, INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from ottla.protocol.batch_header import BATCH_OVERHEAD
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.partitions.partition import Partition

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
