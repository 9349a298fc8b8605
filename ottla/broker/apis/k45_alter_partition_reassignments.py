"""AlterPartitionReassignments, key 45: move replicas.

Behaviour
- In a cluster any broker writes what is asked for, and answers when it is written. Replicas that are new are fetched
  to; when all that are to stay are in sync, the controller takes the others out. Null replicas cancel that.
- With one broker there is nowhere to move to: a valid assignment is the one that is there, and is granted at once.
- With a timeout of 0 or less nothing is done, and everything is answered with REQUEST_TIMED_OUT.

Version notes
- 0 the first, flexible; 1 whether the replication factor may change.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.cluster.topics.new_assignments import check_manual_replicas
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.lifecycle.cluster_member import ClusterMember
    from ottla.broker.network.dispatch import RequestContext
    from ottla.cluster.image.image_feed import PartitionKey

logger = logging.getLogger(__name__)


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    try:
        if request.timeout_ms <= 0:
            response.error_code = ErrorCode.REQUEST_TIMED_OUT
            refused = _refuse_all(request, ErrorCode.REQUEST_TIMED_OUT)
        elif broker.member is None:
            refused = _check_all(broker, request)
        else:
            refused = await _alter(broker.member, request)
    except StoreError as error:
        logger.error("The metadata store failed: %s", error)
        response.error_code, response.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
        return response
    response.responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                _answer(each.partition_index, refused.get((topic.name, each.partition_index)))
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return response


def _refuse_all(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode
) -> dict[PartitionKey, KafkaError]:
    return {
        (topic.name, each.partition_index): KafkaError(code)
        for topic in request.topics
        for each in topic.partitions
    }


def _answer(index: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    answer = ReassignablePartitionResponse(partition_index=index, error_message=None)
    if error is not None:
        answer.error_code, answer.error_message = error.code, error.message
    return answer


async def _alter(
    member: ClusterMember, request: AlterPartitionReassignmentsRequest
) -> dict[PartitionKey, KafkaError]:
    wanted = {
        (topic.name, each.partition_index): each.replicas
        for topic in request.topics
        for each in topic.partitions
    }
    return await member.controller.moves.alter(
        wanted, member.controller.live, may_change_factor=request.allow_replication_factor_change
    )


# A broker on its own


def _check_all(broker: Broker, request: AlterPartitionReassignmentsRequest) -> dict[PartitionKey, KafkaError]:
    refused: dict[PartitionKey, KafkaError] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            try:
                _check(broker, topic.name, wanted)
            except KafkaError as error:
                refused[topic.name, wanted.partition_index] = error
    return refused


def _check(broker: Broker, topic: str, wanted: ReassignablePartition) -> None:
    known = broker.image.topics.get(topic)
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    index = wanted.partition_index
    if index not in known.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_manual_replicas(wanted.replicas, broker.image.brokers, None)
    if tuple(wanted.replicas) != known.partitions[index].replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Moving replicas is not supported yet.")
