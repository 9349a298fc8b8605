"""DescribeGroups, key 15: the state and the members of groups.

Behaviour
- The response includes every requested group: librdkafka aborts its process if one is missing.
- Protocol and metadata are included while the group is stable. During a rebalance the old assignments are still
  included.

Version notes
- 3 authorized operations; 4 instance ids; 5 flexible; 6 GROUP_ID_NOT_FOUND for a missing group (before: the state Dead
  and no error).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.requests.denied_groups import denied_groups
from ottla.coordinator.groups.classic_groups import GroupDescription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.security.acls import ResourceType

SPLIT = Split("groups", "groups", size=16)


def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    allowed, groups = denied_groups(context, request.groups, DescribedGroup)
    for description in broker.groups.classic.describe(allowed):
        if context.version < 6 and description.error is ErrorCode.GROUP_ID_NOT_FOUND:
            description.error = ErrorCode.NONE
        described = _describe(description)
        if request.include_authorized_operations and not description.error:
            described.authorized_operations = context.operations(ResourceType.GROUP, description.group_id)
        groups.append(described)
    return DescribeGroupsResponse(groups=groups)


def _describe(group: GroupDescription) -> DescribedGroup:
    return DescribedGroup(
        error_code=group.error,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )
