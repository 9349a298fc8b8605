"""AddPartitionsToTxn, key 24: add partitions to a transaction.

Behaviour
- All partitions of a transaction are added, or none: if one does not exist, the others are OPERATION_NOT_ATTEMPTED.
- The first partition starts the transaction and its timeout.
- Brokers use versions 4 and 5 for several transactions at once, to add or (`verify_only`) to verify partitions.

Version notes
- 2 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before); 3 flexible; 4 for brokers, in batches; 5 TRANSACTION_ABORTABLE for
  a partition that was not added (INVALID_TXN_STATE before), and transactions v2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.broker.broker import Broker
from ottla.broker.network.error_responses import error_response_in_slices
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import Work
from ottla.protocol.codec import Response
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import INTERNAL_TOPICS, MIRROR_LINK
from ottla.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.security.acls import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

_PRODUCER_FENCED_SINCE = 2
_BATCHES_SINCE = 4
_VERSION_2_SINCE = 5


async def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.version >= _BATCHES_SINCE:
        context.require(CLUSTER_ACTION)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=await _one(broker, transaction, context, {}),
                )
                async for transaction in context.paced(request.transactions)
            ]
        )
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    context.require(WRITE_TRANSACTIONAL_ID, transaction.transactional_id)
    denied = {
        topic.name: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        async for topic in context.paced(transaction.topics)
        if topic.name in INTERNAL_TOPICS
        or not context.allows(WRITE_TOPIC, topic.name, count=len(topic.partitions))
    }
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=await _one(broker, transaction, context, denied)
    )


async def _one(
    broker: Broker,
    transaction: AddPartitionsToTxnTransaction,
    context: RequestContext,
    denied: Mapping[str, ErrorCode],
) -> list[AddPartitionsToTxnTopicResult]:
    version = context.version
    errors: dict[tuple[str, int], ErrorCode] = {}
    is_refused = False
    async for name in context.paced(_partitions(transaction)):
        if transaction.verify_only:
            errors[name] = _verify(broker, transaction, name, version)
        elif (refusal := _refusal(broker, name, denied)) is not None:
            errors[name] = refusal
            is_refused = True
        else:
            errors[name] = ErrorCode.OPERATION_NOT_ATTEMPTED
    if not transaction.verify_only and not is_refused:
        code = await _add(broker, transaction, list(errors), version)
        errors = dict.fromkeys(errors, code)
    results: dict[int, AddPartitionsToTxnTopicResult] = {}
    async for at, topic, index in context.paced(_entries(transaction)):
        if at not in results:
            results[at] = AddPartitionsToTxnTopicResult(name=topic)
        if index is not None:
            results[at].results_by_partition.append(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=errors[topic, index]
                )
            )
    return list(results.values())


def _entries(transaction: AddPartitionsToTxnTransaction) -> Iterator[tuple[int, str, int | None]]:
    """Yield position, topic name and partition of each entry; the partition is None for an empty topic."""
    for at, topic in enumerate(transaction.topics):
        for index in topic.partitions or (None,):
            yield at, topic.name, index


def _partitions(transaction: AddPartitionsToTxnTransaction) -> Iterator[tuple[str, int]]:
    return ((topic, index) for _, topic, index in _entries(transaction) if index is not None)


def _refusal(broker: Broker, name: tuple[str, int], denied: Mapping[str, ErrorCode]) -> ErrorCode | None:
    if name[0] in denied:
        return denied[name[0]]
    known = broker.image.topics.get(name[0])
    if known is not None and known.configs.get(MIRROR_LINK):
        return ErrorCode.INVALID_REQUEST
    return None if name in broker.image.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _add(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, asked: list[tuple[str, int]], version: int
) -> ErrorCode:
    try:
        waiting = broker.transactions.add_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            asked,
            2 if version >= _VERSION_2_SINCE else 0,
        )
        if waiting is not None:
            await waiting
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and version < _PRODUCER_FENCED_SINCE:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return error.code
    return ErrorCode.NONE


def _verify(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, name: tuple[str, int], version: int
) -> ErrorCode:
    code = broker.transactions.verify_partition(
        transaction.transactional_id, transaction.producer_id, transaction.producer_epoch, name
    )
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _VERSION_2_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def error_response(request: AddPartitionsToTxnRequest, error: KafkaError) -> Response | Work[Response]:
    if request.v3_and_below_topics:
        return error_response_in_slices(request, error)
    return AddPartitionsToTxnResponse(error_code=error.code)
