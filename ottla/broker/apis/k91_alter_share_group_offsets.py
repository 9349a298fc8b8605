"""AlterShareGroupOffsets, key 91: let a share group begin anew somewhere else.

Behaviour
- Only for groups without members (NON_EMPTY_GROUP). What was locked, released or counted is forgotten.
- The share coordinators of the partitions are asked, wherever they are, with a new state epoch: who still leads with
  what was known before is fenced.
- A group that is not there is made, so that its start can be set before its first member comes.

Version notes
- 0 is the only one.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.security.rights import READ_GROUP, READ_TOPIC

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
