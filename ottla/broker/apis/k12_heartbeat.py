"""Heartbeat, key 12: keep a member's session alive.

Behaviour
- REBALANCE_IN_PROGRESS tells the member to rejoin.

Version notes
- 3 static members; 4 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from ottla.security.acls import READ_GROUP


def handle(broker: Broker, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    context.require(READ_GROUP, request.group_id)
    error = broker.groups.classic.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)
