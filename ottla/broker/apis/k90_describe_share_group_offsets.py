"""DescribeShareGroupOffsets, key 90: return the start offsets and lag of share groups.

Behaviour
- The start offset is the last stored one; -1 if nothing has been acknowledged yet.
- The lag counts records neither acknowledged nor archived. The broker asks the share coordinators and the partition
  leaders, local or remote.
- A missing group, or a group of another type, has acknowledged nothing; it is not an error.

Version notes
- 1 the lag (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.requests.leaders import end_offsets
from ottla.broker.share.state_persister import SUMMARIZE
from ottla.coordinator.share.share_coordinator import UNINITIALIZED, ShareKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_groups import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.share_state import ReadSummaryPartitionData
from ottla.security.acls import DESCRIBE_GROUP, DESCRIBE_TOPIC


async def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[await _group(broker, context, each) async for each in context.paced(request.groups)]
    )


async def _group(
    broker: Broker, context: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
    shared: Collection[ShareKey] = ()
    try:
        context.require(DESCRIBE_GROUP, asked.group_id)
        group = broker.groups.share.get(asked.group_id)
        shared = dict.fromkeys(group.share_keys())  # keeps the order and allows fast lookups
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            answer.error_code, answer.error_message = error.code, error.message
            return answer
    if asked.topics is None:
        wanted: dict[str, list[int]] = {}
        async for key in context.paced(shared):
            known = broker.image.topics_by_id.get(key.topic_id)
            if known is not None and context.allows(DESCRIBE_TOPIC, known.name):
                wanted.setdefault(known.name, []).append(key.partition)
    else:
        wanted = {}
        async for topic in context.paced(asked.topics):
            wanted[topic.topic_name] = list(topic.partitions)
    answer.topics = [
        await _topic(broker, context, asked.group_id, name, indexes, shared)
        async for name, indexes in context.paced(wanted.items())
    ]
    return answer


async def _topic(
    broker: Broker,
    context: RequestContext,
    group_id: str,
    name: str,
    indexes: list[int],
    shared: Collection[ShareKey],
) -> DescribeShareGroupOffsetsResponseTopic:
    answer = DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNINITIALIZED)
            async for index in context.paced(indexes)
        ],
    )
    denied = context.denial(DESCRIBE_TOPIC, name, len(indexes))
    if denied is not None:
        async for partition in context.paced(answer.partitions):
            partition.error_code, partition.error_message = denied.code, denied.message
        return answer
    topic = broker.image.topics.get(name)
    if topic is None:
        async for partition in context.paced(answer.partitions):
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return answer
    answer.topic_id = topic.topic_id
    keys = {
        index: ShareKey(group_id, topic.topic_id, index)
        async for index in context.paced(indexes)
        if index in topic.partitions
    }
    asked = {key: ReadSummaryPartitionData(leader_epoch=-1) for key in keys.values() if key in shared}
    states = await broker.sharing.persister.ask_all(SUMMARIZE, asked)
    ends = await end_offsets(broker, name, [key.partition for key in asked])
    async for partition in context.paced(answer.partitions):
        key = keys.get(partition.partition_index)
        if key is None:
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        found = states.get(key)
        if found is None:
            continue
        if isinstance(found, KafkaError):
            partition.error_code, partition.error_message = found.code, found.message
            continue
        partition.start_offset = found.start_offset
        partition.leader_epoch = found.leader_epoch
        end = ends[partition.partition_index]
        if found.start_offset == UNINITIALIZED:
            continue
        if isinstance(end, KafkaError):
            partition.error_code, partition.error_message = end.code, end.message
        else:
            partition.lag = max(end - found.start_offset - max(found.delivery_complete_count, 0), 0)
    return answer
