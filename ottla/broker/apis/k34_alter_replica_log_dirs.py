"""AlterReplicaLogDirs, key 34: move replicas between the log directories of this broker.

Behaviour
- The response is sent when the move has started. The broker copies the log and swaps the copy in once it is complete;
  clients notice nothing. The move continues after a restart. DescribeLogDirs shows its progress.
- A move to the current directory keeps the replica there and discards any copy elsewhere.
- A replica not on this broker yet is created in the directory when it arrives; the response is REPLICA_NOT_AVAILABLE.
- LOG_DIR_NOT_FOUND for a directory outside log.dirs, KAFKA_STORAGE_ERROR if the directory or the log is offline.
- `replica.alter.log.dirs.io.max.bytes.per.second` throttles the copy.

Version notes
- 1 first supported version; 2 flexible.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.log.files.checkpoint import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.replicas import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.security.acls import ALTER_CLUSTER


async def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    context.require(ALTER_CLUSTER)
    outcomes: dict[TopicPartition, ErrorCode] = {}
    wanted: dict[TopicPartition, str] = {}  # the last directory named for a replica counts
    async for replica, path in context.paced(_wanted(request)):
        wanted[replica] = path
    async for (name, index), path in context.paced(wanted.items()):
        try:
            await broker.replicas.log_dir_moves.move(name, index, path)
            outcomes[name, index] = ErrorCode.NONE
        except KafkaError as error:
            outcomes[name, index] = error.code
    response = AlterReplicaLogDirsResponse()
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    async for replica, code in context.paced(outcomes.items()):
        _add(response, topics, replica, code)
    return response


def _wanted(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[TopicPartition, str]]:
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield (topic.name, index), directory.path


def _add(
    response: AlterReplicaLogDirsResponse,
    topics: dict[str, AlterReplicaLogDirTopicResult],
    replica: TopicPartition,
    code: ErrorCode,
) -> None:
    name, index = replica
    if name not in topics:
        topics[name] = AlterReplicaLogDirTopicResult(topic_name=name)
        response.results.append(topics[name])
    topics[name].partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))


def error_response(
    request: AlterReplicaLogDirsRequest, error: KafkaError
) -> Work[AlterReplicaLogDirsResponse]:
    response = AlterReplicaLogDirsResponse()
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    seen: set[TopicPartition] = set()
    for count, (replica, _) in enumerate(_wanted(request), 1):
        if replica not in seen:
            seen.add(replica)
            _add(response, topics, replica, error.code)
        if not count % SLICE:
            yield None
    return response
