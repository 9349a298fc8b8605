"""ListPartitionReassignments, key 46: list ongoing reassignments.

Behaviour
- Any broker can answer. Requested partitions without a reassignment are omitted. A standalone broker has none.

Version notes
- 0 is the only version, flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.replicas import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.security.acls import DESCRIBE_CLUSTER


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Work[ListPartitionReassignmentsResponse]:
    context.require(DESCRIBE_CLUSTER)
    asked = None
    if request.topics is not None:
        asked = yield from distinct(
            (topic.name, index) for topic in request.topics for index in topic.partition_indexes
        )
    moving: dict[str, list[OngoingPartitionReassignment]] = {}
    for count, (key, partition) in enumerate(list(broker.image.partitions.items()), 1):
        if not count % (16 * SLICE):
            yield None
        if partition.is_moving and (asked is None or key in asked):
            moving.setdefault(partition.topic, []).append(
                OngoingPartitionReassignment(
                    partition_index=partition.partition,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding_replicas),
                    removing_replicas=list(partition.removing_replicas),
                )
            )
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name=name, partitions=each) for name, each in moving.items()],
    )


def error_response(
    request: ListPartitionReassignmentsRequest, error: KafkaError
) -> Work[ListPartitionReassignmentsResponse]:
    response = ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    entries = 0
    for topic in request.topics or ():
        answered = OngoingTopicReassignment(name=topic.name)
        response.topics.append(answered)
        for index in topic.partition_indexes:
            answered.partitions.append(OngoingPartitionReassignment(partition_index=index))
            entries += 1
            if not entries % SLICE:
                yield None
        entries += 1
        if not entries % SLICE:
            yield None
    return response
