"""Per-group errors for groups that a client may not access."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.security.acls import DESCRIBE_GROUP, DESCRIBE_TOPIC, ResourceType, Right

if TYPE_CHECKING:
    from ottla.broker.network.request_context import RequestContext


class GroupAnswer(Protocol):
    group_id: str
    error_code: int


class DescribedMembers(GroupAnswer, Protocol):
    error_message: str | None
    members: list[Any]
    authorized_operations: int


A = TypeVar("A", bound=GroupAnswer)


def denied_groups(
    context: RequestContext, asked: Iterable[str], answer: Callable[[], A], right: Right = DESCRIBE_GROUP
) -> tuple[list[str], list[A]]:
    allowed: list[str] = []
    denied: list[A] = []
    for group_id in asked:
        denial = context.denial(right, group_id)
        if denial is None:
            allowed.append(group_id)
        else:
            refused = answer()
            refused.group_id, refused.error_code = group_id, denial.code
            denied.append(refused)
    return allowed, denied


def finish_description(
    context: RequestContext, group: DescribedMembers, topics: Iterable[str], *, with_operations: bool
) -> bool:
    """Complete a group description with the client's permitted operations, if requested.

    If the client may not describe all topics of the members, set an error, drop the members and return False.
    """
    if not all(context.allows(DESCRIBE_TOPIC, name) for name in sorted(set(topics))):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = (
            "The group has described topic(s) that the client is not authorized to describe."
        )
        group.members = []
        return False
    if with_operations and not group.error_code:
        group.authorized_operations = context.operations(ResourceType.GROUP, group.group_id)
    return True
