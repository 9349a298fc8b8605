"""AlterShareGroupOffsets, key 91: reset the start offsets of a share group.

Behaviour
- Only for groups without members (NON_EMPTY_GROUP). All delivery state is discarded.
- The broker asks the share coordinators, local or remote, with a new state epoch. It fences leaders that still use the
  old state.
- A missing group is created, so that its start offsets can be set before the first member joins.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.security.acls import READ_GROUP, READ_TOPIC

_UNKNOWN = "This server does not host this topic-partition."


async def handle(
    broker: Broker, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    context.require(READ_GROUP, request.group_id)
    denials = {
        asked.topic_name: context.denial(READ_TOPIC, asked.topic_name, len(asked.partitions))
        async for asked in context.paced(request.topics)
    }
    if not request.topics or None in denials.values():
        await broker.sharing.ensure_topic()
        broker.groups.share.check_empty(request.group_id, may_be_missing=True)
    response = AlterShareGroupOffsetsResponse()
    async for asked in context.paced(request.topics):
        denied = denials[asked.topic_name]
        topic = None if denied is not None else broker.image.topics.get(asked.topic_name)
        answered = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
        response.responses.append(answered)
        if topic is not None:
            answered.topic_id = topic.topic_id
        starts: dict[int, int] = {}
        async for partition in context.paced(asked.partitions):
            answer = AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
            answered.partitions.append(answer)
            if denied is not None:
                answer.error_code, answer.error_message = denied.code, denied.message
            elif topic is None or partition.partition_index not in topic.partitions:
                answer.error_code, answer.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN
            else:
                starts[partition.partition_index] = partition.start_offset
        if topic is not None and starts:
            try:
                await broker.groups.share.alter_offsets(request.group_id, topic.topic_id, topic.name, starts)
            except KafkaError as error:
                for answer in answered.partitions:
                    answer.error_code = answer.error_code or error.code
    return response
