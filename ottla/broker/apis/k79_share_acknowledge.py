"""ShareAcknowledge, key 79: acknowledge records without fetching more (KIP-932).

Behaviour
- Acknowledgements are applied all or none per partition, and the share coordinator writes them before the response. If
  no coordinator is available, the broker retries; COORDINATOR_NOT_AVAILABLE after a while.
- A broker that no longer leads a partition names the current leader.
- The request needs a session. The final epoch (-1) ends it and releases all remaining locks.

Version notes
- 1 first version; 2 lock renewal (KIP-1222), and the response has the lock duration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import islice

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.broker.requests.leaders import LeaderHints
from ottla.broker.share.share_sessions import (
    FINAL_EPOCH,
    OPEN_EPOCH,
    Outcomes,
    SharedPartition,
    acknowledge,
    named,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartitionData,
    LeaderIdAndEpoch,
    NodeEndpoint,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.security.acls import READ_GROUP


def handle(
    broker: Broker, request: ShareAcknowledgeRequest, context: RequestContext
) -> Work[ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]]:
    context.require(READ_GROUP, request.group_id or "")
    group_id, member_id = named(request.group_id, request.member_id)
    if request.share_session_epoch == OPEN_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    broker.sharing.sessions.next(group_id, member_id, request.share_session_epoch)
    may_renew = context.version >= 2
    said = _said(request)
    first = dict(islice(said, SLICE if context.is_large else None))
    outcomes = acknowledge(broker, context, group_id, member_id, first, may_renew=may_renew)
    if not context.is_large:
        if isinstance(outcomes, dict):
            return _respond(broker, request, context, outcomes)
        return _wait(broker, request, context, outcomes)
    if not isinstance(outcomes, dict):
        outcomes = yield outcomes
    response = _respond(broker, request, context, outcomes)
    topics = {topic.topic_id: topic for topic in response.responses}
    hints = LeaderHints(broker, context.listener)
    while some := dict(islice(said, SLICE)):
        outcomes = acknowledge(broker, context, group_id, member_id, some, may_renew=may_renew)
        if not isinstance(outcomes, dict):
            outcomes = yield outcomes
        _add(response, topics, hints, outcomes)
        yield None
    response.node_endpoints = hints.endpoints(NodeEndpoint) or response.node_endpoints
    return response


def _said(request: ShareAcknowledgeRequest) -> Iterator[tuple[SharedPartition, list[AcknowledgementBatch]]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield (topic.topic_id, partition.partition_index), partition.acknowledgement_batches


async def _wait(
    broker: Broker, request: ShareAcknowledgeRequest, context: RequestContext, pending: Awaitable[Outcomes]
) -> ShareAcknowledgeResponse:
    return _respond(broker, request, context, await pending)


def _respond(
    broker: Broker, request: ShareAcknowledgeRequest, context: RequestContext, outcomes: Outcomes
) -> ShareAcknowledgeResponse:
    if request.share_session_epoch == FINAL_EPOCH:
        broker.sharing.sessions.end(*named(request.group_id, request.member_id))
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.config.get_int("group.share.record.lock.duration.ms")
    )
    hints = LeaderHints(broker, context.listener)
    _add(response, {}, hints, outcomes)
    response.node_endpoints = hints.endpoints(NodeEndpoint)
    return response


def _add(
    response: ShareAcknowledgeResponse,
    topics: dict[bytes, ShareAcknowledgeTopicResponse],
    hints: LeaderHints,
    outcomes: Outcomes,
) -> None:
    for (topic_id, index), error in outcomes.items():
        answer = AcknowledgePartitionData(partition_index=index)
        if error is not None:
            answer.error_code, answer.error_message = error.code, error.message
            leader = hints.leader(LeaderIdAndEpoch, topic_id, index, error.code)
            answer.current_leader = leader or answer.current_leader
        if topic_id not in topics:
            topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
            response.responses.append(topics[topic_id])
        topics[topic_id].partitions.append(answer)
