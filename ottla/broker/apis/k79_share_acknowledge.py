"""ShareAcknowledge, key 79: say what came of records, without asking for more (KIP-932).

Behaviour
- Each partition's acknowledgements are applied all or nothing, and written before they are answered.
- Needs a session; the final epoch (-1) ends it and releases what is still locked.

Version notes
- 1 the first; 2 locks can be renewed (KIP-1222), and the lock's duration is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.share_acknowledgements import acknowledge, named
from ottla.broker.share_sessions import FINAL_EPOCH, OPEN_EPOCH
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext


def handle(
    broker: Broker, request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse:
    group_id, member_id = named(request.group_id, request.member_id)
    if request.share_session_epoch == OPEN_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    sessions = broker.sharing.sessions
    sessions.next(group_id, member_id, request.share_session_epoch)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.config.get_int("group.share.record.lock.duration.ms")
    )
    for topic in request.topics:
        answered = ShareAcknowledgeTopicResponse(topic_id=topic.topic_id)
        response.responses.append(answered)
        for partition in topic.partitions:
            where = (topic.topic_id, partition.partition_index)
            error = acknowledge(
                broker,
                group_id,
                member_id,
                where,
                partition.acknowledgement_batches,
                may_renew=context.version >= 2,
            )
            answer = PartitionData(partition_index=partition.partition_index)
            if error is not None:
                answer.error_code, answer.error_message = error.code, error.message
            answered.partitions.append(answer)
    if request.share_session_epoch == FINAL_EPOCH:
        sessions.end(group_id, member_id)
    return response
