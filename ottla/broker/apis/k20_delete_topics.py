"""DeleteTopics, key 20: by name or by id.

Behaviour
- The topic and what groups have committed for it are gone when the answer comes; its files are removed later.
- A name or id that comes twice, or a name whose id comes too, is answered once with INVALID_REQUEST.
- With delete.topic.enable=false every topic is answered with TOPIC_DELETION_DISABLED, which versions below 3 do not
  know: they get INVALID_REQUEST.

Version notes
- 1 the first; 3 TOPIC_DELETION_DISABLED; 4 flexible; 5 error messages; 6 topic ids.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ottla.protocol.codec import ZERO_UUID
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext

_IDS_SINCE = 6
_DELETION_DISABLED_SINCE = 3


async def handle(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    asked = request.topics
    if context.version < _IDS_SINCE:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    results, wanted = _check(broker, asked)
    results += await asyncio.gather(*(_delete(broker, topic, context.version) for topic in wanted))
    return DeleteTopicsResponse(responses=results)


def _check(
    broker: Broker, asked: list[DeleteTopicState]
) -> tuple[list[DeletableTopicResult], list[DeleteTopicState]]:
    """What can be answered at once, and what is to be deleted."""
    refused = []
    wanted = []
    names = Counter(topic.name for topic in asked if topic.topic_id == ZERO_UUID and topic.name is not None)
    ids = Counter(topic.topic_id for topic in asked if topic.name is None and topic.topic_id != ZERO_UUID)
    by_both = {
        name: known.topic_id
        for name in names
        if (known := broker.image.topics.get(name)) and known.topic_id in ids
    }
    reported: set[str | bytes] = set()
    for topic in asked:
        by_name = topic.name is not None
        by_id = topic.topic_id != ZERO_UUID
        key = topic.name if topic.name is not None else topic.topic_id
        if by_name == by_id:
            reason = "You may not specify both topic name and topic id."
            if not by_name:
                reason = "Neither topic name nor id were specified."
        elif (names if by_name else ids)[key] > 1:  # type: ignore[index]
            if key in reported:
                continue
            reported.add(key)
            reason = f"Duplicate topic {'name' if by_name else 'id'}."
        elif not by_name and topic.topic_id in by_both.values():
            continue  # answered with the name
        elif by_name and topic.name in by_both:
            reason = "The provided topic name maps to an ID that was already supplied."
        else:
            wanted.append(topic)
            continue
        refused.append(
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=reason,
            )
        )
    return refused, wanted


async def _delete(broker: Broker, asked: DeleteTopicState, version: int) -> DeletableTopicResult:
    result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    try:
        if asked.name is None:
            topic = broker.image.topics_by_id.get(asked.topic_id)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        else:
            topic = broker.image.topics.get(asked.name)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
                )
        result.name, result.topic_id = topic.name, topic.topic_id
        await broker.delete_topic(topic.name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        if error.code == ErrorCode.TOPIC_DELETION_DISABLED and version < _DELETION_DISABLED_SINCE:
            result.error_code = ErrorCode.INVALID_REQUEST
    return result
