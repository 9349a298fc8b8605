"""EndTxn, key 26: commit or abort a transaction.

Behaviour
- The response waits for the decision to be written, and up to one second for the markers. Markers for unreachable
  partitions are written later; until then the producer's next transaction gets CONCURRENT_TRANSACTIONS.
- Repeating the last end gets the same response.

Version notes
- 2 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before); 3 flexible; 4 TRANSACTION_ABORTABLE; 5 transactions v2 (KIP-890):
  every end bumps the epoch and returns it, and an abort may come before any partition was added.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.transactions import EndTxnRequest, EndTxnResponse
from ottla.security.acls import WRITE_TRANSACTIONAL_ID

_PRODUCER_FENCED_SINCE = 2
_VERSION_2_SINCE = 5


async def handle(broker: Broker, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    context.require(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    try:
        producer = await broker.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            client_version=2 if context.version >= _VERSION_2_SINCE else 0,
        )
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and context.version < _PRODUCER_FENCED_SINCE:
            return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
        return EndTxnResponse(error_code=error.code)
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
