"""DeleteTopics, key 20: delete topics by name or by id.

Behaviour
- The response is sent after the topic and its committed offsets are gone; the files are removed later.
- A name or id given twice, or a topic given by both name and id, is answered once with INVALID_REQUEST.
- With delete.topic.enable=false every topic is answered with TOPIC_DELETION_DISABLED, or INVALID_REQUEST below version
  3.
- With a timeout of 0 or less nothing is done, and every topic is answered with REQUEST_TIMED_OUT.
- Each partition counts against controller_mutation_rate: see CreateTopics.

Version notes
- 1 first supported version; 3 TOPIC_DELETION_DISABLED; 4 flexible; 5 error messages and quota errors; 6 topic ids.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.quotas import MutationQuota
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ottla.security.acls import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC

_IDS_SINCE = 6
_AT_A_TIME = 50  # topics deleted concurrently
_DELETION_DISABLED_SINCE = 3
_QUOTA_ERRORS_SINCE = 5


async def handle(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    times: Counter[tuple[str | None, bytes]] = Counter()
    if context.version < _IDS_SINCE:
        async for name in context.paced(request.topic_names):
            times[name, ZERO_UUID] += 1
    else:
        async for state in context.paced(request.topics):
            times[state.name, state.topic_id] += 1
    if request.timeout_ms <= 0:
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name=name, topic_id=topic_id, error_code=timed_out, error_message=None)
                async for name, topic_id in context.paced(times)
            ]
        )
    refused, wanted = await _sort_out(broker.image, times, context)
    quota = broker.quotas.mutations(context, strict=context.version >= _QUOTA_ERRORS_SINCE)
    deleted: list[DeletableTopicResult] = []
    for at in range(0, len(wanted), _AT_A_TIME):
        some = wanted[at : at + _AT_A_TIME]
        deleted += await asyncio.gather(
            *(_delete(broker, topic, request.timeout_ms, context.version, quota) for topic in some)
        )
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=[*deleted, *refused])


async def _sort_out(
    image: ClusterImage, times: Mapping[tuple[str | None, bytes], int], context: RequestContext
) -> tuple[list[DeletableTopicResult], list[TopicImage]]:
    """Return rejections and the topics to delete. `times` counts how often each is named."""
    refused = []
    wanted = []
    may_delete_all = context.allows(DELETE_CLUSTER, quiet=True)
    async for (name, topic_id), count in context.paced(times.items()):
        try:
            if name is not None and topic_id == ZERO_UUID and count == 1 and not may_delete_all:
                context.require(DESCRIBE_TOPIC, name)  # checked first, so that its existence stays hidden
            topic = _find(image, name, topic_id, count)
            if not may_delete_all:
                context.require(DESCRIBE_TOPIC, topic.name)
                if (denied := context.denial(DELETE_TOPIC, topic.name)) is not None:
                    name = topic.name
                    raise denied
            if (topic.name, ZERO_UUID) in times and (None, topic.topic_id) in times:
                if name is None:
                    continue  # answered under its name
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            wanted.append(topic)
        except KafkaError as error:
            refused.append(
                DeletableTopicResult(
                    name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
                )
            )
    return refused, wanted


def _find(image: ClusterImage, name: str | None, topic_id: bytes, times: int) -> TopicImage:
    by_id = topic_id != ZERO_UUID
    if name is not None and by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and not by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if by_id else 'name'}.")
    topic = image.topics_by_id.get(topic_id) if name is None else image.topics.get(name)
    if topic is not None:
        return topic
    if by_id:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


async def _delete(
    broker: Broker, topic: TopicImage, timeout_ms: int, version: int, quota: MutationQuota
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
    try:
        # A client that disconnects must not leave a topic's committed offsets behind.
        await asyncio.shield(broker.delete_topic(topic.name, timeout_ms, quota.charge))
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        if error.code == ErrorCode.TOPIC_DELETION_DISABLED and version < _DELETION_DISABLED_SINCE:
            result.error_code = ErrorCode.INVALID_REQUEST
    return result
