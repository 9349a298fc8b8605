"""DescribeLogDirs, key 35: list the contents and the free space of log directories.

Behaviour
- Null topics mean all topics. Requested partitions without a local log are omitted, as in Kafka: results describe
  directories, not topics.
- A copy that is moving to another directory is listed as a future replica, with its lag in offsets.
- A failed directory is listed with KAFKA_STORAGE_ERROR and without contents.

Version notes
- 1 first supported version; 2 flexible; 3 top-level error code; 4 size of the volume and free space; 5 cordoned
  directories (none).
"""

from __future__ import annotations

import os

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct
from ottla.log.files.checkpoint import TopicPartition
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.replicas import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.security.acls import DESCRIBE_CLUSTER


def handle(
    broker: Broker, request: DescribeLogDirsRequest, context: RequestContext
) -> Work[DescribeLogDirsResponse]:
    context.require(DESCRIBE_CLUSTER)
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = yield from distinct(
            (topic.topic, index) for topic in request.topics for index in topic.partitions
        )
    response = DescribeLogDirsResponse()
    for directory in broker.replicas.log_directories:
        response.results.append((yield from _describe(broker, directory, wanted)))
    return response


def _describe(
    broker: Broker, directory: LogDirectory, wanted: set[tuple[str, int]] | None
) -> Work[DescribeLogDirsResult]:
    result = DescribeLogDirsResult(log_dir=str(directory.path))
    try:
        volume = os.statvfs(directory.path)
    except OSError as error:
        broker.replicas.directory_failed(directory, error)
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    if not directory.online:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    lag = broker.replicas.log_dir_moves.lag
    # Logs, and for copies their lag in offsets.
    listed: list[tuple[TopicPartition, PartitionLog, int | None]] = [
        (name, log, None) for name, log in directory.logs.items()
    ]
    listed += [(name, log, lag(log)) for name, log in directory.future_logs.items()]
    topics: dict[str, DescribeLogDirsTopic] = {}
    for count, (name, log, behind) in enumerate(listed, 1):
        if wanted is None or name in wanted:
            if log.topic not in topics:
                topics[log.topic] = DescribeLogDirsTopic(name=log.topic)
                result.topics.append(topics[log.topic])
            topics[log.topic].partitions.append(
                DescribeLogDirsPartition(
                    partition_index=log.partition,
                    partition_size=log.size,
                    offset_lag=behind or 0,
                    is_future_key=behind is not None,
                )
            )
        if not count % SLICE:
            yield None
    result.total_bytes = volume.f_frsize * volume.f_blocks
    result.usable_bytes = volume.f_frsize * volume.f_bavail
    return result


def error_response(request: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    # Results list directories, and the request names none
    return DescribeLogDirsResponse(error_code=error.code)
