"""CreatePartitions, key 37: add partitions to topics.

Behaviour
- Each topic succeeds or fails on its own. A name given twice fails once, with INVALID_REQUEST.
- New partitions are open when the response is sent. Each counts against controller_mutation_rate: see CreateTopics.
- With a timeout of 0 or less nothing is done, and every topic is answered with REQUEST_TIMED_OUT.

Version notes
- 0 first version; 1 unchanged; 2 flexible; 3 quota errors.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.quotas import MutationQuota
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.security.acls import ALTER_TOPIC

_QUOTA_ERRORS_SINCE = 3
_AT_A_TIME = 50  # topics extended concurrently


async def handle(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    times: Counter[str] = Counter()
    async for topic in context.paced(request.topics):
        times[topic.name] += 1
    denied: dict[str, None] = {}
    refused: list[CreatePartitionsTopicResult] = []
    async for name in context.paced(times):
        if times[name] == 1 and not context.allows(ALTER_TOPIC, name):
            denied[name] = None
            refused.append(
                CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            )
    if request.timeout_ms <= 0:
        timed_out = ErrorCode.REQUEST_TIMED_OUT
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=name, error_code=timed_out)
                async for name in context.paced(times)
                if name not in denied
            ]
            + refused
        )
    known = []
    unknown = []
    async for topic in context.paced(request.topics):
        if times[topic.name] > 1 or topic.name in denied:
            continue
        if topic.name in broker.image.topics:
            known.append(topic)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown.append(CreatePartitionsTopicResult(name=topic.name, error_code=code))
    quota = broker.quotas.mutations(context, strict=context.version >= _QUOTA_ERRORS_SINCE)
    results: list[CreatePartitionsTopicResult] = []
    for at in range(0, len(known), _AT_A_TIME):
        some = known[at : at + _AT_A_TIME]
        results += await asyncio.gather(*(_extend(broker, topic, request, quota) for topic in some))
    results += unknown
    results += refused
    async for name, count in context.paced(times.items()):
        if count > 1:
            results.append(
                CreatePartitionsTopicResult(
                    name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
                )
            )
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
