"""ListGroups, key 16: the groups that this broker keeps.

Version notes
- 3 flexible; 4 states and a filter by them, in any case; 5 types and a filter by them.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.security.rights import DESCRIBE_CLUSTER, DESCRIBE_GROUP


def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    sees_all = context.allows(DESCRIBE_CLUSTER, quiet=True)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in broker.groups.list_groups(request.states_filter, request.types_filter)
            if sees_all or context.allows(DESCRIBE_GROUP, group.group_id, quiet=True)
        ]
    )
