"""Conversion of ACLs from requests, with arbitrary numbers, to the authorizer's types."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import DeleteAclsFilter, DescribeAclsRequest
from ottla.security.acls import AclFilter, Operation, PatternType, Permission, ResourceType

N = TypeVar("N", bound=IntEnum)


def known(numbers: type[N], number: int) -> N:
    """Convert a number; unknown values of newer versions become UNKNOWN."""
    try:
        return numbers(number)
    except ValueError:
        return numbers(0)


def read_filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    wanted = AclFilter(
        known(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        known(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        known(Operation, asked.operation),
        known(Permission, asked.permission_type),
    )
    if 0 in (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter contains UNKNOWN elements.")
    return wanted
