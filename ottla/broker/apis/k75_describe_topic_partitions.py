"""DescribeTopicPartitions, key 75: describe topics in pages.

Behaviour
- Topics are sorted by name. A page ends after as many partitions as the client or max.request.partition.size.limit
  allows, and the cursor marks the start of the next page.
- Eligible leader replicas (KIP-966) do not exist here: the arrays are empty, because the Java client does not
  expect null.

Version notes
- 0 is the only version, flexible.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct, ordered
from ottla.metadata.cluster_image import PartitionImage
from ottla.metadata.nodes import validate_topic_name
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import is_internal
from ottla.protocol.messages.cluster import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.security.acls import DESCRIBE_TOPIC, ResourceType


def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> Work[DescribeTopicPartitionsResponse]:
    names = yield from distinct(topic.name for topic in request.topics)
    cursor = request.cursor
    response = DescribeTopicPartitionsResponse()
    if cursor is not None and (cursor.partition_index < 0 or (names and cursor.topic_name not in names)):
        yield from _refuse(response, names, ErrorCode.INVALID_REQUEST)
        return response
    limit = min(
        max(request.response_partition_limit, 1), broker.config.get_int("max.request.partition.size.limit")
    )
    may_see = []
    for count, name in enumerate(list(names or broker.image.topics), 1):
        if context.allows(DESCRIBE_TOPIC, name, quiet=not names):
            may_see.append(name)
        if not count % SLICE:
            yield None
    for count, name in enumerate((yield from ordered(may_see)), 1):
        if not count % SLICE:
            yield None
        if cursor is not None and name < cursor.topic_name:
            continue
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        answer = DescribeTopicPartitionsResponseTopic(
            name=name,
            is_internal=is_internal(name),
            topic_authorized_operations=context.operations(ResourceType.TOPIC, name),
        )
        response.topics.append(answer)
        topic = broker.image.topics.get(name)
        if topic is None:
            answer.error_code = _why_unknown(name)
            continue
        answer.topic_id = topic.topic_id
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        indexes = [index for index in topic.partitions if index >= first]
        answer.partitions = [_describe(broker, topic.partitions[index]) for index in indexes[:limit]]
        if len(indexes) > limit:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[limit])
            break
        limit -= len(indexes)
    yield from _refuse(response, names.difference(may_see), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return response


def _refuse(response: DescribeTopicPartitionsResponse, names: Iterable[str], code: ErrorCode) -> Work[None]:
    for count, name in enumerate((yield from ordered(names)), 1):
        response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
        if not count % SLICE:
            yield None


def _why_unknown(name: str) -> ErrorCode:
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _describe(broker: Broker, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    leader = broker.leader_of(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=broker.offline_replicas(partition),
    )
