"""CreateTopics, key 19: create topics.

Behaviour
- Each topic succeeds or fails on its own. A name given twice fails once, with INVALID_REQUEST.
- A request for more than 10,000 partitions in total is rejected as a whole, with POLICY_VIOLATION.
- The response waits until this broker's logs of the topic are open. If they cannot be created, the response has that
  error although the topic exists. After the timeout the response is REQUEST_TIMED_OUT, and the work continues. With a
  timeout of 0 or less the response is the same, but nothing is done.
- validate_only answers as if the topic had been created, including a topic id.
- Each partition counts against controller_mutation_rate, even with validate_only. A client in debt gets
  THROTTLING_QUOTA_EXCEEDED; below version 6 its topics are created and the client is throttled.

Version notes
- 2 first supported version; 4 partitions and replication factor may be -1, the broker's default; 5 flexible, and the
  response includes partitions, replication factor and configs (never null, which the Java client cannot handle); 6
  quota errors; 7 topic ids.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.quotas import MutationQuota
from ottla.cluster.topics.topic_decisions import MAX_PARTITIONS_PER_REQUEST, TOO_MANY_PARTITIONS
from ottla.metadata.cluster_image import TopicImage
from ottla.metadata.dynamic_configs.effective_config import effective_topic_config
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.security.acls import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC

_DESCRIBED_SINCE = 5
_AT_A_TIME = 50  # topics created concurrently
_QUOTA_ERRORS_SINCE = 6


async def handle(
    broker: Broker, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    times: Counter[str] = Counter()
    async for topic in context.paced(request.topics):
        times[topic.name] += 1
    may_create_all = context.allows(CREATE_CLUSTER, quiet=True)
    denied = {
        name
        async for name, count in context.paced(times.items())
        if count == 1 and not may_create_all and not context.allows(CREATE_TOPIC, name)
    }
    response = await _create_all(broker, request, context, times, denied)
    async for name in context.ordered(denied):
        response.topics.append(
            CreatableTopicResult(
                name=name,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="Authorization failed.",
            )
        )
    return response


async def _create_all(
    broker: Broker,
    request: CreateTopicsRequest,
    context: RequestContext,
    times: Mapping[str, int],
    denied: Collection[str],
) -> CreateTopicsResponse:
    allowed = [name async for name in context.paced(times) if name not in denied]
    if request.timeout_ms <= 0:
        return await _refuse_all(context, allowed, ErrorCode.REQUEST_TIMED_OUT, None)
    wanted = [topic async for topic in context.paced(request.topics) if topic.name not in denied]
    partitions = 0
    async for topic in context.paced(wanted):
        partitions += _partitions(topic)
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        return await _refuse_all(context, allowed, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
    quota = broker.quotas.mutations(context, strict=context.version >= _QUOTA_ERRORS_SINCE)
    once = [topic for topic in wanted if times[topic.name] == 1]
    results: list[CreatableTopicResult] = []
    for at in range(0, len(once), _AT_A_TIME):
        some = once[at : at + _AT_A_TIME]
        results += await asyncio.gather(*(_create(broker, topic, request, context, quota) for topic in some))
    async for name, count in context.paced(times.items()):
        if count > 1:
            results.append(
                CreatableTopicResult(
                    name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
                )
            )
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results)


def _partitions(topic: CreatableTopic) -> int:
    return max(topic.num_partitions, len(topic.assignments), 1)


async def _refuse_all(
    context: RequestContext, names: Iterable[str], code: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=name, error_code=code, error_message=message)
            async for name in context.paced(names)
        ]
    )


async def _create(
    broker: Broker,
    wanted: CreatableTopic,
    request: CreateTopicsRequest,
    context: RequestContext,
    quota: MutationQuota,
) -> CreatableTopicResult:
    try:
        topic = await broker.topic_admin.create_topic(
            wanted.name,
            wanted.num_partitions,
            wanted.replication_factor,
            assignment=[(each.partition_index, each.broker_ids) for each in wanted.assignments],
            configs={config.name: config.value async for config in context.paced(wanted.configs)},
            validate_only=request.validate_only,
            timeout_ms=request.timeout_ms,
            charge=quota.charge,
        )
    except KafkaError as error:
        return CreatableTopicResult(name=wanted.name, error_code=error.code, error_message=error.message)
    result = CreatableTopicResult(name=topic.name, topic_id=topic.topic_id, error_message=None)
    if context.version < _DESCRIBED_SINCE:
        return result
    if not context.allows(DESCRIBE_CONFIGS_TOPIC, topic.name, quiet=True):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        _describe(broker, topic, result)
    return result


def _describe(broker: Broker, topic: TopicImage, result: CreatableTopicResult) -> None:
    result.num_partitions = len(topic.partitions)
    result.replication_factor = len(topic.partitions[0].replicas)
    result.configs = [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in effective_topic_config(broker.config, topic.configs).values()
    ]
