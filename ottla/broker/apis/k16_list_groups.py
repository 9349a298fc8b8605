"""ListGroups, key 16: list the groups coordinated by this broker.

Version notes
- 3 flexible; 4 states and a case-insensitive filter by state; 5 types and a filter by type.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct
from ottla.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.security.acls import DESCRIBE_CLUSTER, DESCRIBE_GROUP


def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> Work[ListGroupsResponse]:
    sees_all = context.allows(DESCRIBE_CLUSTER, quiet=True)
    response = ListGroupsResponse()
    states = yield from distinct(state.lower() for state in request.states_filter)
    types = yield from distinct(kind.lower() for kind in request.types_filter)
    for count, group in enumerate(broker.groups.list_groups(), 1):
        is_wanted = not (states and group.state.lower() not in states)
        if types and group.group_type not in types:
            is_wanted = False
        if is_wanted and (sees_all or context.allows(DESCRIBE_GROUP, group.group_id, quiet=True)):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
            )
        if not count % SLICE:
            yield None
    return response
