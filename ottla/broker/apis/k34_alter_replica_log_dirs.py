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

from collections.abc import Mapping

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
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
    for (name, index), path in _wanted(request).items():
        try:
            await broker.replicas.log_dir_moves.move(name, index, path)
            outcomes[name, index] = ErrorCode.NONE
        except KafkaError as error:
            outcomes[name, index] = error.code
    return _response(outcomes)


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Replicas and their new directories; the last one that is named for a replica counts."""
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _response(outcomes: Mapping[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (name, index), code in outcomes.items():
        result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        results.setdefault(name, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def error_response(request: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    return _response(dict.fromkeys(_wanted(request), error.code))
