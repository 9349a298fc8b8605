"""OffsetDelete, key 47: delete single offsets of a group.

Behaviour
- While a group has consumers, only offsets of unsubscribed topics can be deleted (GROUP_SUBSCRIBED_TO_TOPIC). Groups of
  other kinds must be empty (NON_EMPTY_GROUP).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.security.acls import DELETE_GROUP, READ_TOPIC

SPLIT = Split("topics.partitions", "topics.partitions")


async def handle(
    broker: Broker, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse:
    context.require(DELETE_GROUP, request.group_id)
    response = OffsetDeleteResponse()
    offsets: list[tuple[str, int]] = []
    answers: list[OffsetDeleteResponsePartition] = []
    for asked in request.topics:
        topic = broker.image.topics.get(asked.name)
        denied = context.denial(READ_TOPIC, asked.name, len(asked.partitions))
        answered = OffsetDeleteResponseTopic(name=asked.name)
        response.topics.append(answered)
        for partition in asked.partitions:
            answer = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            answered.partitions.append(answer)
            if denied is not None:
                answer.error_code = denied.code
            elif topic is None or partition.partition_index not in topic.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                offsets.append((asked.name, partition.partition_index))
                answers.append(answer)
    errors = await broker.groups.offsets.delete(request.group_id, offsets)
    for answer, error in zip(answers, errors, strict=True):
        answer.error_code = error
    return response
