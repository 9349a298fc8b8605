"""OffsetCommit, key 8: commit offsets of a group.

Behaviour
- A missing topic or partition is rejected by itself; the others are committed in one batch.
- Members commit with their generation. Anyone may commit with generation -1 while the group has no members.
- Members of a consumer or streams group commit with their epoch. An older epoch suffices for partitions held since then
  (KIP-1251); otherwise STALE_MEMBER_EPOCH.
- The response waits until every in-sync replica of `__consumer_offsets` has the offsets.

Version notes
- 2 to 4 carry a retention time; 6 leader epochs; 7 static members; 8 flexible; 9 GROUP_ID_NOT_FOUND for a missing group
  (ILLEGAL_GENERATION before), and the epochs of consumer groups (UNSUPPORTED_VERSION before); 10 topics by id.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.coordinator.groups.offsets import OffsetToCommit
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.security.acls import READ_GROUP, READ_TOPIC

SPLIT = Split("topics.partitions", "topics.partitions", size=500)


def handle(
    broker: Broker, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    context.require(READ_GROUP, request.group_id)
    by_id = context.version >= 10
    response = OffsetCommitResponse()
    offsets: list[OffsetToCommit] = []
    answers: list[OffsetCommitResponsePartition] = []
    for asked in request.topics:
        topic = (
            broker.image.topics_by_id.get(asked.topic_id) if by_id else broker.image.topics.get(asked.name)
        )
        name = asked.name if topic is None else topic.name
        denied = None
        if topic is not None or not by_id:  # otherwise the id is unknown
            denied = context.denial(READ_TOPIC, name, len(asked.partitions))
        answered = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        response.topics.append(answered)
        for partition in asked.partitions:
            index = partition.partition_index
            answer = OffsetCommitResponsePartition(partition_index=index)
            answered.partitions.append(answer)
            if denied is not None:
                answer.error_code = denied.code
            elif topic is None:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.error_code = unknown
            elif index not in topic.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                answers.append(answer)
                offsets.append(
                    OffsetToCommit(
                        topic.name,
                        index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                        topic.topic_id,
                    )
                )
    if not offsets:
        return response
    errors = broker.groups.offsets.commit(
        request.group_id,
        offsets,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id_or_member_epoch,
        retention_time_ms=request.retention_time_ms,
        unknown_group_error=(
            ErrorCode.GROUP_ID_NOT_FOUND if context.version >= 9 else ErrorCode.ILLEGAL_GENERATION
        ),
        knows_epochs=context.version >= 9,
    )
    if not isinstance(errors, list):
        return _when_committed(response, answers, errors)
    _fill(answers, errors)
    return response


async def _when_committed(
    response: OffsetCommitResponse,
    answers: list[OffsetCommitResponsePartition],
    errors: Awaitable[list[ErrorCode]],
) -> OffsetCommitResponse:
    _fill(answers, await errors)
    return response


def _fill(answers: list[OffsetCommitResponsePartition], errors: list[ErrorCode]) -> None:
    for answer, error in zip(answers, errors, strict=True):
        answer.error_code = error
