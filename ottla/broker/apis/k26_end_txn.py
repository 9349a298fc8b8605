"""EndTxn, key 26: commit or abort.

Behaviour
- Answered when the decision is written and the markers are, as far as the partitions can be reached within a second;
  the rest are written later; until then a producer that starts its next one gets CONCURRENT_TRANSACTIONS.
- A repetition of the last end is answered like the first.

Version notes
- 2 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before); 3 flexible; 4 TRANSACTION_ABORTABLE; 5 transactions v2 (KIP-890):
  every end raises the epoch and answers with it, an abort may come before anything was added.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.transactions import EndTxnRequest, EndTxnResponse
from ottla.security.rights import WRITE_TRANSACTIONAL_ID

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
