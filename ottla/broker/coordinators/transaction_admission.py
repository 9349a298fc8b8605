"""Who may write in a transaction: the partition must be part of it, before the first batch is appended.

A producer of version 2 (KIP-890) adds a partition by writing to it; one of version 1 has to have added it. Where the
coordinator is in this process nothing is waited for, so no end of the transaction can come between question and append.
Where it is another broker, a marker that comes meanwhile makes the answer void, and the producer asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.coordinators.remote_transactions import add_at_coordinator, remote_coordinator
from ottla.metadata.topic_names import GROUP_METADATA_TOPIC, INTERNAL_TOPICS
from ottla.protocol.batch_header import BATCH_OVERHEAD
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import ProduceRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.partition import Partition

PRODUCE_ADDS_SINCE = 12
PRODUCE_KNOWS_ABORTABLE_SINCE = 11
OFFSETS_ADD_SINCE = 5
OFFSETS_KNOW_ABORTABLE_SINCE = 4

_ATTRIBUTES_LOW = 22
_TRANSACTIONAL = 0x10
_PRODUCER = Struct(">qhi").unpack_from  # id, epoch, base sequence
_PRODUCER_AT = 43
_TOPIC_IDS = 13

# Old clients do not retry these, and NOT_ENOUGH_REPLICAS they do, without asking for metadata: Kafka's choice.
_COORDINATOR_AWAY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

Refused = dict[tuple[str, int], KafkaError]


def is_transactional(records: memoryview | None) -> bool:
    return (
        records is not None
        and len(records) >= BATCH_OVERHEAD
        and records[_ATTRIBUTES_LOW] & _TRANSACTIONAL != 0
    )


def admit_produce(broker: Broker, request: ProduceRequest, version: int) -> Refused | Awaitable[Refused]:
    """Which partitions of a transactional request may not be written to, and why."""
    transactional_id = request.transactional_id or ""
    refused: Refused = {}
    asked: dict[tuple[int, int], list[tuple[str, int]]] = {}
    partitions: dict[tuple[str, int], Partition] = {}
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
                continue  # the append will say it
            if partition.topic in INTERNAL_TOPICS:
                continue  # and will be refused
            producer_id, epoch, sequence = _PRODUCER(data.records, _PRODUCER_AT)
            producers = partition.log.producers
            if producers.has_open_transaction(producer_id, epoch):
                continue
            name = (partition.topic, partition.index)
            if version >= PRODUCE_ADDS_SINCE and sequence and producer_id not in producers.producers:
                # What came before it is still on its way, or was refused.
                refused[name] = KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            else:
                asked.setdefault((producer_id, epoch), []).append(name)
                partitions[name] = partition
    if asked and (version >= PRODUCE_ADDS_SINCE or broker.verify_transactions):
        coordinator = remote_coordinator(broker, transactional_id)
        if coordinator is not None:
            return _ask(broker, coordinator, transactional_id, asked, partitions, refused, version)
    waiting: list[tuple[Awaitable[None], list[tuple[str, int]]]] = []
    for (producer_id, epoch), names in asked.items():
        if version >= PRODUCE_ADDS_SINCE:
            try:
                pending = broker.transactions.add_partitions(transactional_id, producer_id, epoch, names, 2)
                if pending is not None:
                    waiting.append((pending, names))
            except KafkaError as error:
                refused |= dict.fromkeys(names, _for_producer(error.code, version))
        elif broker.verify_transactions:
            for name in names:
                code = broker.transactions.verify_partition(transactional_id, producer_id, epoch, name)
                if code:
                    refused[name] = _for_producer(code, version)
    return _when_added(waiting, refused, version) if waiting else refused


async def _when_added(
    waiting: list[tuple[Awaitable[None], list[tuple[str, int]]]], refused: Refused, version: int
) -> Refused:
    for pending, names in waiting:
        try:
            await pending
        except KafkaError as error:
            refused |= dict.fromkeys(names, _for_producer(error.code, version))
    return refused


async def _ask(
    broker: Broker,
    coordinator: int,
    transactional_id: str,
    asked: dict[tuple[int, int], list[tuple[str, int]]],
    partitions: dict[tuple[str, int], Partition],
    refused: Refused,
    version: int,
) -> Refused:
    """The same at another broker."""
    before = {name: partition.log.producers.markers for name, partition in partitions.items()}
    for (producer_id, epoch), names in asked.items():
        found = await add_at_coordinator(
            broker,
            coordinator,
            transactional_id,
            producer_id,
            epoch,
            names,
            verify_only=version < PRODUCE_ADDS_SINCE,
        )
        for name, code in found.items():
            if not code and partitions[name].log.producers.markers != before[name]:
                code = ErrorCode.CONCURRENT_TRANSACTIONS
            if code:
                refused[name] = _for_producer(code, version)
    return refused


def _for_producer(code: ErrorCode, version: int) -> KafkaError:
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < PRODUCE_KNOWS_ABORTABLE_SINCE:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < PRODUCE_ADDS_SINCE:
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    if code in _COORDINATOR_AWAY:
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    return KafkaError(code)


def admit_offsets(
    broker: Broker,
    partition: Partition,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    version: int,
) -> Awaitable[None] | None:
    """The same for offsets, which are written to a partition of `__consumer_offsets`. A KafkaError refuses."""
    if partition.log.producers.has_open_transaction(producer_id, producer_epoch):
        return None
    name = (GROUP_METADATA_TOPIC, partition.index)
    coordinator = remote_coordinator(broker, transactional_id)
    if coordinator is not None and (version >= OFFSETS_ADD_SINCE or broker.verify_transactions):
        return _ask_for_offsets(
            broker, coordinator, partition, name, transactional_id, producer_id, producer_epoch, version
        )
    try:
        if version >= OFFSETS_ADD_SINCE:
            return broker.transactions.add_partitions(
                transactional_id, producer_id, producer_epoch, [name], 2
            )
        if broker.verify_transactions:
            code = broker.transactions.verify_partition(transactional_id, producer_id, producer_epoch, name)
            if code:
                raise KafkaError(code)
    except KafkaError as error:
        raise KafkaError(_for_offsets(error.code, version)) from None
    return None


async def _ask_for_offsets(
    broker: Broker,
    coordinator: int,
    partition: Partition,
    name: tuple[str, int],
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    version: int,
) -> None:
    before = partition.log.producers.markers
    found = await add_at_coordinator(
        broker,
        coordinator,
        transactional_id,
        producer_id,
        producer_epoch,
        [name],
        verify_only=version < OFFSETS_ADD_SINCE,
    )
    code = found[name]
    if not code and partition.log.producers.markers != before:
        code = ErrorCode.CONCURRENT_TRANSACTIONS
    if code:
        raise KafkaError(_for_offsets(code, version))


def _for_offsets(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < OFFSETS_KNOW_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < OFFSETS_ADD_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _COORDINATOR_AWAY:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
