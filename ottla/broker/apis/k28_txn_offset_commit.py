"""TxnOffsetCommit, key 28: commit offsets as part of a transaction.

Behaviour
- The offsets are written to `__consumer_offsets` immediately and wait there for the marker. Until then OffsetFetch with
  `require_stable` returns UNSTABLE_OFFSET_COMMIT for their partitions.
- The producer may name the group member and generation it commits for; a replaced member is rejected. For consumer and
  streams groups an older epoch suffices for partitions held since then (KIP-1251).

Version notes
- 2 leader epochs, COORDINATOR_LOAD_IN_PROGRESS (COORDINATOR_NOT_AVAILABLE before); 3 flexible, member and generation;
  4 TRANSACTION_ABORTABLE; 5 transactions v2 (KIP-890): adds the group's partition to the transaction;
  6 topics by id (KIP-1319), UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.broker import Broker
from ottla.broker.coordinators.transactions import admit_offsets
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.coordinator.groups.offsets import OffsetToCommit
from ottla.coordinator.runtime import ProducerEpoch, partition_for
from ottla.metadata.nodes import GROUP_METADATA_TOPIC
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.security.acls import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID

_LOAD_IN_PROGRESS_SINCE = 2


SPLIT = Split("topics.partitions", "topics.partitions", size=500)


async def handle(
    broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    context.require(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    context.require(READ_GROUP, request.group_id)
    response = TxnOffsetCommitResponse()
    offsets: list[OffsetToCommit] = []
    answers: list[TxnOffsetCommitResponsePartition] = []
    by_id = context.version >= 6
    for asked in request.topics:
        topic = (
            broker.image.topics_by_id.get(asked.topic_id) if by_id else broker.image.topics.get(asked.name)
        )
        denied = None
        if topic is not None or not by_id:
            name = asked.name if topic is None else topic.name
            denied = context.denial(READ_TOPIC, name, len(asked.partitions))
        answered = TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        response.topics.append(answered)
        for partition in asked.partitions:
            answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            answered.partitions.append(answer)
            if denied is not None:
                answer.error_code = denied.code
                continue
            if topic is None and by_id:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                continue
            if topic is None or partition.partition_index not in topic.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            answers.append(answer)
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    topic.topic_id,
                )
            )
    if request.topics and not offsets:
        return response  # nothing remains to be committed
    try:
        admitted = _admit(broker, request, context.version)
        if admitted is not None:
            await admitted
        errors = broker.groups.offsets.commit_transactional(
            request.group_id,
            ProducerEpoch(request.producer_id, request.producer_epoch),
            offsets,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id,
        )
        if not isinstance(errors, list):
            errors = await errors
    except KafkaError as error:
        errors = [error.code] * len(answers)
    for answer, error_code in zip(answers, errors, strict=True):
        answer.error_code = _in_version(error_code, context.version)
    return response


def _admit(broker: Broker, request: TxnOffsetCommitRequest, version: int) -> Awaitable[None] | None:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    topic = broker.image.topics.get(GROUP_METADATA_TOPIC)
    if topic is None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)  # FindCoordinator creates the topic
    index = partition_for(request.group_id, len(topic.partitions))
    try:
        partition = broker.replicas.leader(GROUP_METADATA_TOPIC, index)
    except KafkaError:
        raise KafkaError(ErrorCode.NOT_COORDINATOR) from None
    return admit_offsets(
        broker, partition, request.transactional_id, request.producer_id, request.producer_epoch, version
    )


def _in_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOAD_IN_PROGRESS_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
