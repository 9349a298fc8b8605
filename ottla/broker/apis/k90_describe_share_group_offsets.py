"""DescribeShareGroupOffsets, key 90: where share groups stand.

Behaviour
- The start offset is the one that was last written; -1 where nothing has been acknowledged yet.
- The lag counts what is neither acknowledged nor archived.
- A group that is not there, or none that shares, has acknowledged nothing: that is no error.

Version notes
- 1 the lag (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.share_state import UNINITIALIZED, ShareKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext


def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_group(broker, group) for group in request.groups])


def _group(
    broker: Broker, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
    try:
        broker.groups.share_group(asked.group_id)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            answer.error_code, answer.error_message = error.code, error.message
            return answer
    if asked.topics is None:
        wanted: dict[str, list[int]] = {}
        for key in broker.sharing.states.keys(asked.group_id):
            known = broker.image.topics_by_id.get(key.topic_id)
            if known is not None:
                wanted.setdefault(known.name, []).append(key.partition)
    else:
        wanted = {topic.topic_name: list(topic.partitions) for topic in asked.topics}
    answer.topics = [_topic(broker, asked.group_id, name, indexes) for name, indexes in wanted.items()]
    return answer


def _topic(
    broker: Broker, group_id: str, name: str, indexes: list[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = broker.image.topics.get(name)
    answer = DescribeShareGroupOffsetsResponseTopic(topic_name=name)
    if topic is not None:
        answer.topic_id = topic.topic_id
    for index in indexes:
        partition = DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=-1)
        answer.partitions.append(partition)
        if topic is None or index not in topic.partitions:
            partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        state = broker.sharing.states.get(ShareKey(group_id, topic.topic_id, index))
        if state is None:
            continue
        partition.start_offset = state.start_offset
        partition.leader_epoch = state.leader_epoch
        if state.start_offset != UNINITIALIZED:
            end = broker.replicas.leader(name, index).high_watermark
            partition.lag = max(end - state.start_offset - max(state.delivery_complete, 0), 0)
    return answer
