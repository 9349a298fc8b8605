"""SyncGroup, key 14: the leader sends the assignment, and each member receives its part.

Behaviour
- The response waits for the leader's assignment to reach every in-sync replica.

Version notes
- 3 static members; 4 flexible; 5 the client must name the group's protocol type and protocol.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.coordinator.groups.base.effects import SyncRequest, SyncResult
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse
from ottla.security.acls import READ_GROUP


async def handle(broker: Broker, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    if context.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    context.require(READ_GROUP, request.group_id)
    assignments = {each.member_id: each.assignment async for each in context.paced(request.assignments)}
    result = broker.groups.classic.sync(
        request.group_id,
        SyncRequest(
            request.member_id,
            request.generation_id,
            assignments,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
        ),
    )
    if not isinstance(result, SyncResult):
        result = await result
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
