"""ACLs: describe, create, delete; and the rights of the current user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeVar

from ottla.client.admin.routing import ask_controller
from ottla.client.cluster import Cluster
from ottla.client.errors import check_accepted
from ottla.protocol.messages import acls as messages
from ottla.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

# ACLs: describe, create, delete.

T = TypeVar("T", bound=IntEnum)

_SUBJECT = "The ACL"


def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Return sorted ACLs, because brokers list them in no order."""
    request = messages.DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = cluster.any_connection().request(request, messages.DescribeAclsResponse)
    check_accepted("The ACLs", answer)
    return sorted(
        Acl(
            _pattern(resource),
            _entry(entry),
        )
        for resource in answer.resources
        for entry in resource.acls
    )


def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    request = messages.CreateAclsRequest(
        creations=[
            messages.AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in acls
        ]
    )
    ask_controller(
        cluster,
        request,
        messages.CreateAclsResponse,
        lambda answer: check_accepted(_SUBJECT, *answer.results),
    )


def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    request = messages.DeleteAclsRequest(
        filters=[
            messages.DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )

    def deleted(answer: messages.DeleteAclsResponse) -> list[Acl]:
        check_accepted("The ACLs", *answer.filter_results)
        matching = [each for result in answer.filter_results for each in result.matching_acls]
        check_accepted(_SUBJECT, *matching)
        return sorted({Acl(_pattern(each), _entry(each)) for each in matching})

    return ask_controller(cluster, request, messages.DeleteAclsResponse, deleted)


def _pattern(found: messages.DescribeAclsResource | messages.DeleteAclsMatchingAcl) -> ResourcePattern:
    return ResourcePattern(
        _known(ResourceType, found.resource_type),
        found.resource_name,
        _known(PatternType, found.pattern_type),
    )


def _entry(found: messages.AclDescription | messages.DeleteAclsMatchingAcl) -> Entry:
    return Entry(
        found.principal,
        found.host,
        _known(Operation, found.operation),
        _known(Permission, found.permission_type),
    )


def _known(kind: type[T], number: int) -> T:
    """Convert a number. A newer broker may use unknown ones."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


# Rights of the current user.


def cluster_operations(cluster: Cluster) -> frozenset[Operation]:
    """Return the allowed operations on the CLUSTER resource; none without the right to describe it."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = cluster.any_connection().request(request, DescribeClusterResponse)
    check_accepted("The rights on the cluster", answer)
    bits = max(answer.cluster_authorized_operations, 0)
    return frozenset(each for each in Operation if bits >> each & 1)
