"""AddOffsetsToTxn, key 25: announce that the transaction will commit offsets of a group.

Behaviour
- The group's partition of `__consumer_offsets` is added to the transaction.

Version notes
- 2 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before); 3 flexible; 4 TRANSACTION_ABORTABLE. Clients of transactions v2 do
  not send it: TxnOffsetCommit adds the partition.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.coordinator.runtime import partition_for
from ottla.metadata.nodes import GROUP_METADATA_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.transactions import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.security.acls import READ_GROUP, WRITE_TRANSACTIONAL_ID

_PRODUCER_FENCED_SINCE = 2


async def handle(
    broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    context.require(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    context.require(READ_GROUP, request.group_id)
    try:
        await broker.ensure_internal_topic(GROUP_METADATA_TOPIC)
        count = len(broker.image.topics[GROUP_METADATA_TOPIC].partitions)
        waiting = broker.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(GROUP_METADATA_TOPIC, partition_for(request.group_id, count))],
            0,
        )
        if waiting is not None:
            await waiting
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and context.version < _PRODUCER_FENCED_SINCE:
            return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
        return AddOffsetsToTxnResponse(error_code=error.code)
    return AddOffsetsToTxnResponse()
