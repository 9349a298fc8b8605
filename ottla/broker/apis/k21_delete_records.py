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
from ottla.broker.network.dispatch import RequestContext
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.security.rights import DELETE_TOPIC

_NO_WATERMARK = -1


async def handle(
    broker: Broker, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    waiting: dict[asyncio.Future[None], DeleteRecordsPartitionResult] = {}
    async for topic in context.paced(request.topics):
        results = []
        denied = context.denial(DELETE_TOPIC, topic.name, len(topic.partitions))
        async for asked in context.paced(topic.partitions):
            result, deleted = _delete(broker, topic.name, asked, denied)
            results.append(result)
            if deleted is not None:
                waiting[deleted] = result
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    if waiting:
        await _wait(waiting, request.timeout_ms / 1000)
    # Answer after the checkpoint, so that deleted records do not reappear after a crash.
    for directory in broker.replicas.log_directories:
        if directory.online:
            await asyncio.to_thread(directory.checkpoint)
    return response


async def _wait(waiting: dict[asyncio.Future[None], DeleteRecordsPartitionResult], seconds: float) -> None:
    """Wait until the other replicas have deleted the records, or another broker becomes leader."""
    await asyncio.wait(waiting, timeout=max(0.0, seconds))
    for deleted, result in waiting.items():
        if not deleted.done():
            deleted.cancel()
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        elif isinstance(error := deleted.exception(), KafkaError):
            result.error_code, result.low_watermark = error.code, _NO_WATERMARK


def _delete(
    broker: Broker, topic: str, asked: DeleteRecordsPartition, denied: KafkaError | None
) -> tuple[DeleteRecordsPartitionResult, asyncio.Future[None] | None]:
    """Return the result, and a future for the deletion on the other replicas."""
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
        return result, None
    leading = partition.leading
    return result, None if leading is None else leading.wait_deleted(result.low_watermark)
