"""AlterReplicaLogDirs, key 34: move replicas between the log directories of this broker.

Behaviour
- Answered when the move has begun. A copy is made beside the log and takes its place when it has everything; clients
  notice nothing. It goes on after a restart. DescribeLogDirs shows how far it is.
- A replica that is asked to move where it is stays there, and what was copied elsewhere is thrown away.
- A replica that is not here yet is made in the directory when it comes, and answered with REPLICA_NOT_AVAILABLE.
- LOG_DIR_NOT_FOUND for what is not in log.dirs, KAFKA_STORAGE_ERROR where the directory or the log is offline.
- `replica.alter.log.dirs.io.max.bytes.per.second` holds it back.

Version notes
- 1 the first; 2 flexible.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.log.files.checkpoint import TopicPartition
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.replicas import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.security.rights import ALTER_CLUSTER


async def handle(
    broker: Broker, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    context.require(ALTER_CLUSTER)
    outcomes: dict[TopicPartition, ErrorCode] = {}
    wanted: dict[TopicPartition, str] = {}  # the last directory that is named for a replica counts
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
    """Replicas and their new directories."""
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
