"""ListGroups, key 16: the groups that this broker keeps.

Version notes
- 3 flexible; 4 states and a filter by them, in any case; 5 types and a filter by them.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct
from ottla.protocol.messages.groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.security.rights import DESCRIBE_CLUSTER, DESCRIBE_GROUP


def handle(broker: Broker, request: ListGroupsRequest, context: RequestContext) -> Work[ListGroupsResponse]:
    sees_all = context.allows(DESCRIBE_CLUSTER, quiet=True)
    response = ListGroupsResponse()
    states = yield from distinct(request.states_filter)
    types = yield from distinct(request.types_filter)
    found = broker.groups.list_groups(states, types)
    for count, group in enumerate(found, 1):
        if sees_all or context.allows(DESCRIBE_GROUP, group.group_id, quiet=True):
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
