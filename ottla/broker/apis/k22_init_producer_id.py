"""InitProducerId, key 22: assign an id to an idempotent or transactional producer.

Behaviour
- Without a transactional id every call returns a new id with epoch 0, even if the producer names its old id; its
  sequences start again.
- With a transactional id, `__transaction_state` stores the producer id, and every call bumps its epoch, which fences
  the previous producer. An open transaction is aborted first. Kafka returns CONCURRENT_TRANSACTIONS meanwhile and lets
  the client retry; here the call continues once the markers are written, usually immediately.
- A producer that names its id and epoch continues after an error, unless fenced.
- A producer with `enable2Pc` has no transaction timeout. One with `keepPreparedTxn` keeps the ongoing transaction of
  the previous producer; its id and epoch are in the response (KIP-939). Both flags need TWO_PHASE_COMMIT on the
  transactional id and `transaction.two.phase.commit.enable`, else TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- An id with exhausted epochs is replaced by a new one.

Version notes
- 0 first version; 1 unchanged; 2 flexible; 3 the producer's own id and epoch; 4 PRODUCER_FENCED (INVALID_PRODUCER_EPOCH
  before); 5 errors that only end the transaction; 6 two-phase commit. Kafka 4.4 calls 6 unstable.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.coordinator.transactions.transaction import ProducerIdAndEpoch
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from ottla.security.acls import IDEMPOTENT_WRITE, TWO_PHASE_COMMIT, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

_NONE = -1
_PRODUCER_FENCED_SINCE = 4


async def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    _authorize(request, context)
    has_id, has_epoch = request.producer_id != _NONE, request.producer_epoch != _NONE
    if request.transactional_id == "" or has_id != has_epoch:
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.allocate(), producer_epoch=0)
    expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch) if has_id else None
    try:
        given = await broker.transactions.init_transaction(
            request.transactional_id,
            request.transaction_timeout_ms,
            expected,
            two_phase_commit=request.enable2_pc,
            keep=request.keep_prepared_txn,
        )
    except KafkaError as error:
        if error.code is ErrorCode.PRODUCER_FENCED and context.version < _PRODUCER_FENCED_SINCE:
            return _refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
        return _refuse(error.code)
    response = InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.producer_epoch)
    if given.kept is not None:
        response.ongoing_txn_producer_id = given.kept.producer_id
        response.ongoing_txn_producer_epoch = given.kept.producer_epoch
    return response


def _authorize(request: InitProducerIdRequest, context: RequestContext) -> None:
    if request.transactional_id is not None:
        context.require(WRITE_TRANSACTIONAL_ID, request.transactional_id)
        if request.enable2_pc or request.keep_prepared_txn:
            context.require(TWO_PHASE_COMMIT, request.transactional_id)
    elif not context.allows(IDEMPOTENT_WRITE, quiet=True) and not context.allows_any(WRITE_TOPIC):
        context.require(IDEMPOTENT_WRITE)


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)
