"""ShareGroupHeartbeat, key 76: join, stay in or leave a share group (KIP-932).

Behaviour
- A member joins with epoch 0, stays with its epoch and leaves with -1. The broker assigns partitions; several members
  may share one.
- The first subscription to a topic initializes the group's state in `__share_group_state`. Partitions are assigned only
  afterwards: the first heartbeat returns an empty assignment, a later one the member's partitions.
- A leaving member keeps its share session, because clients acknowledge their last records while leaving or afterwards.

Version notes
- 1 is the only version.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.apis.k68_consumer_group_heartbeat import check_subscription
from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import Work
from ottla.coordinator.groups.modern.consumer_state import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.groups.modern.subscribing_group import HeartbeatRequest, HeartbeatResult
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_groups import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.security.acls import READ_GROUP


def handle(
    broker: Broker, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> Work[Awaitable[ShareGroupHeartbeatResponse]]:
    context.require(READ_GROUP, request.group_id)
    yield from check_subscription(context, request.subscribed_topic_names)
    _check(request)
    return _heartbeat(broker, request, context)


async def _heartbeat(
    broker: Broker, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    await broker.sharing.ensure_topic()
    result = broker.groups.share.heartbeat(
        request.group_id,
        HeartbeatRequest(
            request.member_id,
            request.member_epoch,
            rack_id=request.rack_id,
            topics=None if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names),
            client_id=context.client_id,
            client_host=context.client_host,
        ),
    )
    if not isinstance(result, HeartbeatResult):
        result = await result
    response = ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
    )
    if result.assignment is not None:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in result.assignment.items()
            ]
        )
    return response


def _check(request: ShareGroupHeartbeatRequest) -> None:
    problem = None
    if not request.member_id:
        problem = "MemberId can't be empty."
    elif not request.group_id:
        problem = "GroupId can't be empty."
    elif request.rack_id == "":
        problem = "RackId can't be empty."
    elif request.member_epoch < LEAVE_EPOCH:
        problem = "MemberEpoch is invalid."
    elif request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        problem = "SubscribedTopicNames must be set in first request."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
