"""DeleteRecords, key 21: advance the log start offset of partitions.

Behaviour
- Offset -1 means the high watermark.
- The response waits until no live replica has the records; REQUEST_TIMED_OUT if that takes too long.
- Whole segments are deleted; the rest of the first segment stays on disk but is no longer served.
- Compacted topics reject the request with POLICY_VIOLATION, internal topics with INVALID_TOPIC_EXCEPTION.

Version notes
- 0 first version; 1 unchanged; 2 flexible.
"""

from __future__ import annotations

import asyncio

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.cluster.partitions.delayed_operations import Awaited, DelayedDeleteRecords, wait_for
from ottla.metadata.nodes import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.security.acls import DELETE_TOPIC

_NO_WATERMARK = -1


async def handle(
    broker: Broker, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    awaited: list[Awaited] = []
    async for topic in context.paced(request.topics):
        results = []
        denied = context.denial(DELETE_TOPIC, topic.name, len(topic.partitions))
        async for asked in context.paced(topic.partitions):
            results.append(_delete(broker, topic.name, asked, denied, awaited))
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    await wait_for(DelayedDeleteRecords, awaited, max(0, request.timeout_ms))
    for _, _, result in awaited:
        assert isinstance(result, DeleteRecordsPartitionResult)
        if result.error_code and result.error_code != ErrorCode.REQUEST_TIMED_OUT:
            result.low_watermark = _NO_WATERMARK
    # Answer after the checkpoint, so that deleted records do not reappear after a crash.
    for directory in broker.replicas.log_directories:
        if directory.online:
            await asyncio.to_thread(directory.checkpoint)
    return response


def _delete(
    broker: Broker,
    topic: str,
    asked: DeleteRecordsPartition,
    denied: KafkaError | None,
    awaited: list[Awaited],
) -> DeleteRecordsPartitionResult:
    """Delete the records here. Deletions that other replicas have yet to make go to `awaited`."""
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=_NO_WATERMARK)
    try:
        if denied is not None:
            raise denied
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = broker.replicas.leader(topic, asked.partition_index)
        policy = partition.log.config.cleanup_policy
        if "compact" in policy and "delete" not in policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        result.low_watermark = partition.delete_records(asked.offset)
    except KafkaError as error:
        result.error_code = error.code
        return result
    if partition.leading is not None:
        awaited.append(Awaited(partition, result.low_watermark, result))
    return result
