"""DeleteGroups, key 42: delete groups and their offsets.

Behaviour
- Only a group without members can be deleted. The response includes every requested group.

Version notes
- 2 flexible; 3 error messages.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.requests.denied_groups import denied_groups
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.security.acls import DELETE_GROUP

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
                DeletableGroupResult(
                    group_id=group_id, error_code=error, error_message=_message(group_id, error)
                )
                for group_id, error in zip(allowed, errors, strict=True)
            ),
        ]
    )


def _message(group_id: str, error: ErrorCode) -> str | None:
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        return f"Group {group_id} not found."
    if error is ErrorCode.NON_EMPTY_GROUP:
        return f"Group {group_id} is not empty."
    return None
