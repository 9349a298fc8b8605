"""AlterPartitionReassignments, key 45: start and cancel reassignments of replicas.

Behaviour
- Any broker writes the reassignment and then responds. New replicas fetch from the leader; once all target replicas are
  in sync, the controller removes the others. Null replicas cancel a reassignment.
- A single broker has nowhere to move replicas: the only valid assignment is the current one, and it succeeds
  immediately.
- With a timeout of 0 or less nothing is done, and every partition is answered with REQUEST_TIMED_OUT.

Version notes
- 0 first version, flexible; 1 whether the replication factor may change.
"""

from __future__ import annotations

import logging
from itertools import islice

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.security.acls import ALTER_CLUSTER

logger = logging.getLogger(__name__)


_AT_A_TIME = 500  # partitions changed together


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    context.require(ALTER_CLUSTER)
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    wanted: dict[tuple[str, int], list[int] | None] = {}
    async for topic in context.paced(request.topics):
        async for each in context.paced(topic.partitions):
            wanted[topic.name, each.partition_index] = each.replicas
    try:
        if request.timeout_ms <= 0:
            response.error_code = ErrorCode.REQUEST_TIMED_OUT
            refused = dict.fromkeys(wanted, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        else:
            controller = broker.member.controller
            refused = {}
            rest = iter(wanted.items())
            while some := dict(islice(rest, _AT_A_TIME)):
                refused |= await controller.reassigner.alter(
                    some, controller.live, may_change_factor=request.allow_replication_factor_change
                )
    except StoreError as failure:
        logger.error("The metadata store failed: %s", failure)
        response.error_code, response.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, str(failure)
        return response
    async for topic in context.paced(request.topics):
        answered = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answered)
        async for each in context.paced(topic.partitions):
            error = refused.get((topic.name, each.partition_index))
            answered.partitions.append(_answer(each.partition_index, error))
    return response


def _answer(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    answer = ReassignablePartitionResponse(partition_index=index, error_message=None)
    if error is not None:
        answer.error_code, answer.error_message = error.code, error.message
    return answer
