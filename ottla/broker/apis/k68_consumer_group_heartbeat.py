"""ConsumerGroupHeartbeat, key 68: join, stay in or leave a consumer group (KIP-848).

Behaviour
- A member joins with epoch 0, stays with its epoch and leaves with -1; a static member leaves temporarily with -2.
- The broker assigns partitions. A member first revokes partitions outside its target, confirms this in its next
  heartbeat, and gets new partitions once no other member holds them. The response includes the assignment only if it
  has changed or the member sent all fields.
- A classic group becomes a consumer group when the first member joins with this API, unless
  `group.consumer.migration.policy` forbids it.
- Regular expressions match whole topic names; `protocol.regular_expressions` describes the syntax.

Version notes
- 0 the broker assigns member ids; 1 members choose their own, and may subscribe with a regular expression.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Awaitable, Callable, Collection

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.coordinator.groups.modern.consumer_state import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ottla.coordinator.groups.modern.subscribing_group import HeartbeatRequest, HeartbeatResult
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.security.acls import DESCRIBE_TOPIC, READ_GROUP

_MOST_TOPICS = 10_000


def handle(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> Work[ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]]:
    context.require(READ_GROUP, request.group_id)
    yield from check_subscription(context, request.subscribed_topic_names)
    owned = None
    if request.topic_partitions is not None:
        owned = {}
        for count, part in enumerate(request.topic_partitions, 1):
            owned[part.topic_id] = frozenset(part.partitions)
            if not count % SLICE:
                yield None
    _check(request, context.version, broker.groups.consumer.assignors)
    member_id = request.member_id
    if not member_id:
        member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    result = broker.groups.consumer.heartbeat(
        request.group_id,
        HeartbeatRequest(
            member_id,
            request.member_epoch,
            request.instance_id,
            request.rack_id,
            request.rebalance_timeout_ms,
            None if request.subscribed_topic_names is None else tuple(request.subscribed_topic_names),
            request.subscribed_topic_regex,
            request.server_assignor,
            owned,
            context.client_id,
            context.client_host,
            _sees(context),
        ),
    )
    if isinstance(result, HeartbeatResult):
        return _response(result)
    return _when_stored(result)


def check_subscription(context: RequestContext, names: Collection[str] | None) -> Work[None]:
    """Raise KafkaError if the client may not describe one of the topics, or names more than any member needs."""
    if names is not None and len(names) > _MOST_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A member cannot subscribe to more than {_MOST_TOPICS} topics by name.",
        )
    for count, name in enumerate(names or (), 1):
        context.require(DESCRIBE_TOPIC, name)
        if not count % SLICE:
            yield None


def _sees(context: RequestContext) -> Callable[[str], bool] | None:
    if context.connection.rights is None:
        return None
    return lambda topic: context.allows(DESCRIBE_TOPIC, topic, quiet=True)


async def _when_stored(result: Awaitable[HeartbeatResult]) -> ConsumerGroupHeartbeatResponse:
    return _response(await result)


def _response(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    response = ConsumerGroupHeartbeatResponse(
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


def _check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    problem = None
    if not request.member_id and (version > 0 or request.member_epoch != JOIN_EPOCH):
        problem = "MemberId can't be empty."
    elif not request.group_id:
        problem = "GroupId can't be empty."
    elif request.instance_id == "":
        problem = "InstanceId can't be empty."
    elif request.rack_id == "":
        problem = "RackId can't be empty."
    elif request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            problem = "RebalanceTimeoutMs must be provided in first request."
        elif request.topic_partitions is None or request.topic_partitions:
            problem = "TopicPartitions must be empty when (re-)joining."
        elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            problem = (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        problem = "InstanceId can't be null."
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        problem = "MemberEpoch is invalid."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors and request.member_epoch > LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )
