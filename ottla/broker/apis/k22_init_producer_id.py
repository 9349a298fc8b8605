"""InitProducerId, key 22: an id for an idempotent producer.

Behaviour
- Every call gets a new id with epoch 0, also that of a producer which names the id it had: its sequences begin anew.
- There are no transactions yet: a transactional id is refused with UNSUPPORTED_VERSION, which no client retries.

Version notes
- 0 the first; 1 the same; 2 flexible; 3 the producer's own id and epoch; 4 PRODUCER_FENCED;
  5 errors that end a transaction only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext

_NONE = -1


async def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    has_id, has_epoch = request.producer_id != _NONE, request.producer_epoch != _NONE
    if request.transactional_id == "" or has_id != has_epoch:
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refuse(ErrorCode.UNSUPPORTED_VERSION)
    return InitProducerIdResponse(producer_id=await broker.producer_ids.allocate(), producer_epoch=0)


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
