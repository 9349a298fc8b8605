"""JoinGroup, key 11: join a group, or stay in it through a rebalance.

Behaviour
- The response waits until all members have joined or the rebalance timeout expires. The leader receives the metadata of
  all members.
- The first rebalance of a group waits `group.initial.rebalance.delay.ms` for more members.

Version notes
- 0 has no rebalance timeout and uses the session timeout; 4 a dynamic member requests its id first
  (MEMBER_ID_REQUIRED); 5 static members; 6 flexible; 7 the response includes the protocol type, and an error has no
  protocol name; 8 a reason, for the broker's log; 9 a returning static leader may skip the assignment (KIP-814).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.coordinator.groups.base.effects import JoinRequest, MemberProtocol
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.security.acls import READ_GROUP

_MOST_PROTOCOLS = 1000


async def handle(broker: Broker, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    context.require(READ_GROUP, request.group_id)
    if len(request.protocols) > _MOST_PROTOCOLS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"A member cannot support more than {_MOST_PROTOCOLS} protocols."
        )
    result = await broker.groups.classic.join(
        request.group_id,
        JoinRequest(
            request.member_id,
            request.protocol_type,
            tuple(MemberProtocol(protocol.name, protocol.metadata) for protocol in request.protocols),
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.group_instance_id,
            context.client_id,
            context.client_host,
            requires_known_member_id=context.version >= 4,
            supports_skipping_assignment=context.version >= 9,
            reason=request.reason,
        ),
    )
    protocol_name = result.protocol_name
    if protocol_name is None and context.version < 7:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )
