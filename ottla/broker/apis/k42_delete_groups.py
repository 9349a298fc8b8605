"""DeleteGroups, key 42: forget groups and their offsets.

Behaviour
- Only a group without members can be deleted. Every group that is asked for is answered.

Version notes
- 2 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.messages.groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(
    broker: Broker, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    errors = await broker.groups.delete_groups(request.groups_names)
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error)
            for group_id, error in zip(request.groups_names, errors, strict=True)
        ]
    )
