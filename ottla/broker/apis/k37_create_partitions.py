"""CreatePartitions, key 37: let topics have more partitions.

Behaviour
- Each topic succeeds or fails on its own; a name that comes twice fails once, with INVALID_REQUEST.
- New partitions are open when the answer comes. Each counts against controller_mutation_rate: see CreateTopics.
- With a timeout of 0 or less nothing is done, and everything is answered with REQUEST_TIMED_OUT.

Version notes
- 0 the first; 1 the same; 2 flexible; 3 quota errors.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.quotas.client_quotas import MutationQuota
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.security.rights import ALTER_TOPIC

_QUOTA_ERRORS_SINCE = 3


async def handle(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    denied = [name for name in times if times[name] == 1 and not context.allows(ALTER_TOPIC, name)]
    refused = [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for name in denied
    ]
    if request.timeout_ms <= 0:
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        return CreatePartitionsResponse(
            results=[
                *(
                    CreatePartitionsTopicResult(name=name, error_code=timed_out)
                    for name in times
                    if name not in denied
                ),
                *refused,
            ]
        )
    once = [topic for topic in request.topics if times[topic.name] == 1 and topic.name not in denied]
    known = [topic for topic in once if topic.name in broker.image.topics]
    quota = broker.quotas.mutations(context, strict=context.version >= _QUOTA_ERRORS_SINCE)
    results = await asyncio.gather(*(_extend(broker, topic, request, quota) for topic in known))
    results += [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for name in (topic.name for topic in once)
        if name not in broker.image.topics
    ]
    results += refused
    results += [
        CreatePartitionsTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
        )
        for name, count in times.items()
        if count > 1
    ]
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results)


async def _extend(
    broker: Broker, wanted: CreatePartitionsTopic, request: CreatePartitionsRequest, quota: MutationQuota
) -> CreatePartitionsTopicResult:
    assignment = None
    if wanted.assignments is not None:
        assignment = [each.broker_ids for each in wanted.assignments]
    try:
        await broker.topic_admin.create_partitions(
            wanted.name,
            wanted.count,
            assignment=assignment,
            validate_only=request.validate_only,
            timeout_ms=request.timeout_ms,
            charge=quota.charge,
        )
    except KafkaError as error:
        return CreatePartitionsTopicResult(
            name=wanted.name, error_code=error.code, error_message=error.message
        )
    return CreatePartitionsTopicResult(name=wanted.name)
