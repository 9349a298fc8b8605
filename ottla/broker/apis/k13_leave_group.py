"""LeaveGroup, key 13: members leave, or an administrator removes them.

Behaviour
- A static member can be named by its instance id alone.

Version notes
- 0 to 2 name one member and return its error at the top level; 3 several members; 4 flexible; 5 a reason.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.coordinator.groups.base.effects import LeavingMember
from ottla.protocol.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.security.acls import READ_GROUP

SPLIT = Split("members", "members")


def handle(broker: Broker, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    context.require(READ_GROUP, request.group_id)
    if context.version < 3:
        (error,) = broker.groups.classic.leave(request.group_id, [LeavingMember(request.member_id)])
        return LeaveGroupResponse(error_code=error)
    leaving = [LeavingMember(m.member_id, m.group_instance_id, m.reason) for m in request.members]
    errors = broker.groups.classic.leave(request.group_id, leaving)
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error
            )
            for member, error in zip(leaving, errors, strict=True)
        ]
    )
