"""DescribeAcls, key 29: list the ACLs that match a filter.

Behaviour
- Entries of one pattern are grouped. Filters work as in Kafka: ANY and null match everything; MATCH finds all ACLs that
  apply to a resource of that name.
- SECURITY_DISABLED without an authorizer, as in Kafka. MirrorMaker and consoles read it as "nothing to do here".

Version notes
- 1 pattern types; 2 flexible; 3 user resources.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.broker.security.authorization import read_filter
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.security.acls import DESCRIBE_CLUSTER, Acl, ResourcePattern


def handle(
    broker: Broker, request: DescribeAclsRequest, context: RequestContext
) -> Work[DescribeAclsResponse]:
    context.require(DESCRIBE_CLUSTER)
    if broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = read_filter(request)
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    found: list[Acl] = []
    for count, acl in enumerate(list(broker.authorizer), 1):
        if wanted.matches(acl):
            found.append(acl)
        if not count % SLICE:
            yield None
    for count, (pattern, entry) in enumerate(sorted(found), 1):
        if not count % SLICE:
            yield None
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()), error_message=None)
