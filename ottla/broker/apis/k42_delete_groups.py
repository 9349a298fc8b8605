"""DeleteGroups, key 42: delete groups and their offsets.

Behaviour
- Only a group without members can be deleted. The response includes every requested group.

Version notes
- 2 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.requests.denied_groups import denied_groups
from ottla.broker.requests.split import Split
from ottla.protocol.messages.groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.security.rights import DELETE_GROUP

SPLIT = Split("groups_names", "results")


async def handle(
    broker: Broker, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    allowed, denied = denied_groups(context, request.groups_names, DeletableGroupResult, DELETE_GROUP)
    errors = await broker.groups.delete_groups(allowed)
    return DeleteGroupsResponse(
        results=[
            *denied,
            *(
                DeletableGroupResult(group_id=group_id, error_code=error)
                for group_id, error in zip(allowed, errors, strict=True)
            ),
        ]
    )
