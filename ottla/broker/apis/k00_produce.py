"""Produce, key 0: append one batch to each partition.

Behaviour
- The broker checks a batch by its header, CRC and first records, assigns offsets in the receive buffer and appends it.
  It reads all records only if the topic requires it (other compression, keys for compaction, old timestamps) or a
  timestamp is out of range. A thread then inspects large batches while the connection waits.
- acks=0 gets no response; after an error the broker closes the connection, as Kafka does, so that the client refreshes
  its metadata. acks=1 is answered after the append, acks=all once every in-sync replica has the batch. The connection
  handles further requests in the meantime; responses keep their order.
- acks=all fails below min.insync.replicas: NOT_ENOUGH_REPLICAS before the append, NOT_ENOUGH_REPLICAS_AFTER_APPEND if
  replicas drop out while it waits; REQUEST_TIMED_OUT after the request's timeout; NOT_LEADER_OR_FOLLOWER if another
  broker takes over.
- Each partition succeeds or fails on its own. If single records are invalid (no key for a compacted topic, a timestamp
  out of range), the whole batch fails and the response lists them (KIP-467), so that a client can tell them from the
  valid records of the same batch.
- A transactional batch is appended only if the partition belongs to the transaction. From version 12 on a write adds
  the partition; before that the client must have added it (INVALID_TXN_STATE, from 11 on TRANSACTION_ABORTABLE).
- If a topic requires schemas (confluent.value.schema.validation, not in Apache Kafka), records without a schema from
  the registry are rejected with INVALID_RECORD, and the response lists them.

Version notes
- 3 first supported version (record batch v2); 5 log start offset; 7 zstd; 8 record errors; 9 flexible; 10 leader hints
  (KIP-951); 11 TRANSACTION_ABORTABLE; 12 transactions v2 (KIP-890); 13 topic ids.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import NamedTuple

from ottla.broker.broker import Broker
from ottla.broker.coordinators.transactions import Refused, admit_produce
from ottla.broker.network.error_responses import error_response as generic_error_response
from ottla.broker.network.request_context import CloseConnection, PendingResponse, RequestContext
from ottla.broker.network.split import Split
from ottla.broker.requests.leaders import LeaderHints
from ottla.cluster.partitions.delayed_operations import Awaited, DelayedProduce, wait_for
from ottla.cluster.partitions.partition import Partition
from ottla.log.append_check import InspectionNeeded, inspect
from ottla.log.config import LogConfig, RefusedRecordsError
from ottla.metadata.nodes import INTERNAL_TOPICS
from ottla.protocol.codec import Response
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.security.acls import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

_ALL = -1
_HINTS_SINCE = 10
_TOPIC_IDS = 13
_ZSTD = 4
_ZSTD_SINCE = 7
_ATTRIBUTES_LOW = 22  # byte of the batch header that holds the codec
_TRANSACTIONAL = 0x10  # in the same byte
_NOTHING: Refused = {}


SPLIT = Split("topic_data.partition_data", "responses.partition_responses")


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | PendingResponse | None:
    refused = _NOTHING
    if request.transactional_id is not None:
        denied = context.denial(WRITE_TRANSACTIONAL_ID, request.transactional_id)
        if denied is not None and _is_transactional(request):
            raise denied
    if broker.schema_validation is not None:
        checked = broker.schema_validation.check(request, context.version)
        if not isinstance(checked, dict):
            _keep_records(request)
            return _append_when_checked(broker, request, context, checked)
        refused = checked
    if request.transactional_id is not None:
        admitted = admit_produce(broker, _writable(broker, request, context), context.version)
        if not isinstance(admitted, dict):
            _keep_records(request)
            return _append_when_admitted(broker, request, context, refused, admitted)
        refused = admitted | refused
    waits: list[Awaited] = []
    large: list[_Large] = []
    answer = _append(broker, request, context, refused, waits, large)
    if large:
        return _inspect_and_append(broker, request, context, answer, waits, large)
    if waits and answer is not None:
        if context.is_large:
            return _when_committed(answer, waits, request.timeout_ms)
        pending = context.pending_response()
        delayed = DelayedProduce(waits, partial(pending.complete, answer))
        pending.on_abandon = delayed.cancel
        delayed.watch(request.timeout_ms)
        return pending
    return answer


def _keep_records(request: ProduceRequest) -> None:
    """Copy the records, because their receive buffer is reused while this request waits."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))


async def _append_when_checked(
    broker: Broker, request: ProduceRequest, context: RequestContext, checked: Awaitable[Refused]
) -> ProduceResponse | None:
    refused = await checked
    if request.transactional_id is not None:
        # Check after the wait, not before: the transaction may have ended in the meantime.
        admitted = admit_produce(broker, _writable(broker, request, context), context.version)
        if not isinstance(admitted, dict):
            return await _append_when_admitted(broker, request, context, refused, admitted)
        refused = admitted | refused
    return await _append_and_wait(broker, request, context, refused)


async def _append_when_admitted(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    refused: Refused,
    admitted: Awaitable[Refused],
) -> ProduceResponse | None:
    return await _append_and_wait(broker, request, context, await admitted | refused)


async def _append_and_wait(
    broker: Broker, request: ProduceRequest, context: RequestContext, refused: Refused
) -> ProduceResponse | None:
    waits: list[Awaited] = []
    large: list[_Large] = []
    answer = _append(broker, request, context, refused, waits, large)
    if large:
        return await _inspect_and_append(broker, request, context, answer, waits, large)
    await wait_for(DelayedProduce, waits, request.timeout_ms)
    return answer


class _Large(NamedTuple):
    """A batch with records to inspect in a thread before the append."""

    topic: TopicProduceData
    data: PartitionProduceData
    partition: Partition
    config: LogConfig
    answer: PartitionProduceResponse  # to be filled in


def _inspect_and_append(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    answer: ProduceResponse | None,
    waits: list[Awaited],
    large: list[_Large],
) -> Awaitable[ProduceResponse | None]:
    for each in large:  # the receive buffer is reused while this request waits
        each.data.records = memoryview(bytearray(each.data.records))
    return _append_inspected(broker, request, context, answer, waits, large)


async def _append_inspected(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    answer: ProduceResponse | None,
    waits: list[Awaited],
    large: list[_Large],
) -> ProduceResponse | None:
    refused: Refused = {}
    for each in large:
        try:
            each.data.records = await broker.inspections.run(
                inspect, each.data.records, each.config, broker.now_ms()
            )
        except KafkaError as error:
            refused[each.partition.topic, each.partition.index] = error
    inspected = ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        topic_data=[
            TopicProduceData(name=each.topic.name, topic_id=each.topic.topic_id, partition_data=[each.data])
            for each in large
        ],
    )
    if request.transactional_id is not None:
        # Check after the wait, not before: the transaction may have ended in the meantime.
        admitted = admit_produce(broker, _writable(broker, inspected, context), context.version)
        refused = (admitted if isinstance(admitted, dict) else await admitted) | refused
    second = _append(broker, inspected, context, refused, waits, None)
    if answer is not None and second is not None:
        for each, topic in zip(large, second.responses, strict=True):
            for name in PartitionProduceResponse.fields:
                setattr(each.answer, name, getattr(topic.partition_responses[0], name))
        answer.node_endpoints = second.node_endpoints or answer.node_endpoints
    await wait_for(DelayedProduce, waits, request.timeout_ms)
    return answer


async def _when_committed(answer: ProduceResponse, waits: list[Awaited], timeout_ms: int) -> ProduceResponse:
    await wait_for(DelayedProduce, waits, timeout_ms)
    return answer


def _append(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    refused: Refused,
    waits: list[Awaited],
    large: list[_Large] | None,
) -> ProduceResponse | None:
    """Append the batches.

    Batches that other replicas have yet to fetch go to `waits`. Batches with records to inspect first go to `large`;
    None means that they have been inspected.
    """
    version = context.version
    hints: LeaderHints | None = None
    now_ms = broker.now_ms()
    plain = request.transactional_id is None
    acks = request.acks
    acks_error = None
    if not -1 <= acks <= 1:
        acks_error = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    responses = []
    rights = context.connection.rights
    for topic in request.topic_data:
        answers = []
        denied = None
        if rights is not None and not rights.was_allowed(WRITE_TOPIC, topic.name or topic.topic_id):
            denied = _denial(broker, topic, context)
        for data in topic.partition_data:
            try:
                if denied is not None:
                    raise denied
                if acks_error is not None:
                    raise acks_error
                partition = _partition(broker, topic, data, version)
                records = _records(data, version)
                if plain and len(records) > _ATTRIBUTES_LOW and records[_ATTRIBUTES_LOW] & _TRANSACTIONAL:
                    raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                if refused and (partition.topic, partition.index) in refused:
                    raise refused[partition.topic, partition.index]
                waits_for_replicas = acks == _ALL and partition.leading is not None
                if waits_for_replicas:
                    partition.check_min_isr()
                info = partition.append(records, now_ms, inspected=large is None)
                answer = PartitionProduceResponse(
                    index=data.index,
                    base_offset=info.first_offset,
                    log_append_time_ms=info.log_append_time,
                    log_start_offset=info.log_start_offset,
                )
                if waits_for_replicas and partition.high_watermark <= info.last_offset:
                    waits.append(Awaited(partition, info.last_offset + 1, answer))
            except InspectionNeeded as needed:
                answer = PartitionProduceResponse(index=data.index)
                if large is not None:
                    large.append(_Large(topic, data, partition, needed.config, answer))
            except KafkaError as error:
                if broker.metrics is not None:
                    broker.metrics.produce_failed(topic.name, topic.topic_id, error.code)
                if acks == 0:
                    raise _unacknowledged(error) from None
                answer = PartitionProduceResponse(
                    index=data.index, error_code=error.code, base_offset=-1, error_message=error.message
                )
                if isinstance(error, RefusedRecordsError):
                    answer.record_errors = [
                        BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=error.message)
                        for place in error.places
                    ]
                if version >= _HINTS_SINCE:
                    hints = hints or LeaderHints(broker, context.listener)
                    name = topic.topic_id if version >= _TOPIC_IDS else topic.name
                    answer.current_leader = hints.leader(LeaderIdAndEpoch, name, data.index, error.code)
            answers.append(answer)
        responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if acks == 0:
        return None
    response = ProduceResponse(responses=responses)
    if hints is not None:
        response.node_endpoints = hints.endpoints(NodeEndpoint)
    return response


def _denial(broker: Broker, topic: TopicProduceData, context: RequestContext) -> KafkaError | None:
    name = topic.name
    if context.version >= _TOPIC_IDS:
        known = broker.image.topics_by_id.get(topic.topic_id)
        if known is None:
            return None  # the error for an unknown topic reveals no names
        name = known.name
    denied = context.denial(WRITE_TOPIC, name)
    if denied is None and context.connection.rights is not None:
        context.connection.rights.remember(WRITE_TOPIC, topic.name or topic.topic_id)
    return denied


def _writable(broker: Broker, request: ProduceRequest, context: RequestContext) -> ProduceRequest:
    """Return the request without denied topics, which must not become part of the transaction."""
    if context.connection.rights is None:
        return request
    return ProduceRequest(
        transactional_id=request.transactional_id,
        topic_data=[topic for topic in request.topic_data if _denial(broker, topic, context) is None],
    )


def _is_transactional(request: ProduceRequest) -> bool:
    return any(
        data.records is not None
        and len(data.records) > _ATTRIBUTES_LOW
        and data.records[_ATTRIBUTES_LOW] & _TRANSACTIONAL
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _partition(
    broker: Broker, topic: TopicProduceData, data: PartitionProduceData, version: int
) -> Partition:
    if version >= _TOPIC_IDS:
        partition = broker.replicas.leader_by_id(topic.topic_id, data.index)
    else:
        partition = broker.replicas.leader(topic.name, data.index)
    if partition.topic in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {partition.topic}"
        )
    return partition


def _records(data: PartitionProduceData, version: int) -> memoryview:
    records: memoryview | None = data.records
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The request holds no records for this partition")
    if version < _ZSTD_SINCE and len(records) > _ATTRIBUTES_LOW and records[_ATTRIBUTES_LOW] & 7 == _ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {version} cannot carry zstd batches"
        )
    return records


def error_response(request: ProduceRequest, error: KafkaError) -> Response:
    if request.acks == 0:
        raise _unacknowledged(error)
    return generic_error_response(request, error)


def _unacknowledged(error: KafkaError) -> CloseConnection:
    return CloseConnection(f"produce without acknowledgement failed: {error}")
