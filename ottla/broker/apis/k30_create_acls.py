"""CreateAcls, key 30: create ACLs.

Behaviour
- Each ACL succeeds or fails on its own; an existing ACL succeeds. ACLs of one pattern are written together.
- An ACL takes effect on this broker before the response, and on the others soon after.
- INVALID_REQUEST for an invalid ACL, and for a name that the store cannot represent, such as one with a slash (as in
  Kafka 3.9).
- SECURITY_DISABLED without an authorizer.

Version notes
- 1 pattern types; 2 flexible; 3 user resources.
"""

from __future__ import annotations

import logging

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.security.authorization import add_entries, known
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.security.acls import (
    ALTER_CLUSTER,
    Acl,
    BadAcl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    check_creation,
)

logger = logging.getLogger(__name__)


async def handle(broker: Broker, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    context.require(ALTER_CLUSTER)
    if broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    results = [AclCreationResult(error_message=None) async for _ in context.paced(request.creations)]
    wanted: dict[ResourcePattern, list[tuple[Entry, AclCreationResult]]] = {}
    async for creation, result in context.paced(zip(request.creations, results, strict=True)):
        acl = _acl(creation)
        try:
            check_creation(acl)
            wanted.setdefault(acl.pattern, []).append((acl.entry, result))
        except BadAcl as error:
            _fail(result, ErrorCode.INVALID_REQUEST, str(error))
    async for pattern, entries in context.paced(wanted.items()):
        try:
            await add_entries(broker.store, pattern, [entry for entry, _ in entries])
        except BadAcl as error:
            for _, result in entries:
                _fail(result, ErrorCode.INVALID_REQUEST, str(error))
        except StoreError as error:
            logger.error("The metadata store failed: %s", error)
            for _, result in entries:
                _fail(result, ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    await broker.member.feed.sync()
    return CreateAclsResponse(results=results)


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        ResourcePattern(
            known(ResourceType, creation.resource_type),
            creation.resource_name,
            known(PatternType, creation.resource_pattern_type),
        ),
        Entry(
            creation.principal,
            creation.host,
            known(Operation, creation.operation),
            known(Permission, creation.permission_type),
        ),
    )


def _fail(result: AclCreationResult, code: ErrorCode, message: str) -> None:
    result.error_code, result.error_message = code, message
