"""AlterPartitionReassignments, key 45: move replicas.

Behaviour
- With one broker there is nowhere to move to: a valid assignment is the one that is there, and is granted at once.
- Null replicas cancel a reassignment; there never is one.

Version notes
- 0 the first, flexible; 1 whether the replication factor may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.placement import check_manual_replicas
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext


def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_answer(broker, topic.name, partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _answer(broker: Broker, topic: str, wanted: ReassignablePartition) -> ReassignablePartitionResponse:
    answer = ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
    try:
        _check(broker, topic, wanted)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer


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
