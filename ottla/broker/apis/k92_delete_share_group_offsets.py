"""DeleteShareGroupOffsets, key 92: delete the offsets of a share group for topics.

Behaviour
- Only for groups without members (NON_EMPTY_GROUP). After a new subscription `share.auto.offset.reset` sets the start
  offset.
- The broker asks the share coordinators, local or remote.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_groups import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.security.acls import DELETE_GROUP, READ_TOPIC

_UNKNOWN = "This server does not host this topic-partition."


async def handle(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    context.require(DELETE_GROUP, request.group_id)
    broker.groups.share.check_empty(request.group_id)
    response = DeleteShareGroupOffsetsResponse()
    async for asked in context.paced(request.topics):
        answer = DeleteShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
        response.responses.append(answer)
        denied = context.denial(READ_TOPIC, asked.topic_name)
        if denied is not None:
            answer.error_code, answer.error_message = denied.code, denied.message
            continue
        topic = broker.image.topics.get(asked.topic_name)
        if topic is None:
            answer.error_code, answer.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN
            continue
        answer.topic_id = topic.topic_id
        try:
            await broker.groups.share.delete_offsets(request.group_id, topic.topic_id, topic.name)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
    return response
