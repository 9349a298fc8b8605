"""DeleteAcls, key 31: delete the ACLs that match filters.

Behaviour
- The result of each filter lists the removed ACLs. If several filters match an ACL, only the first lists it.
- A removed ACL is no longer in force on this broker when the response is sent, and on the others soon after. An ACL
  that another broker adds to the same resource concurrently survives.
- SECURITY_DISABLED without an authorizer.

Version notes
- 1 pattern types; 2 flexible; 3 user resources.
"""

from __future__ import annotations

import logging
from functools import partial

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.security.authorization import read_filter, remove_entries
from ottla.metadata.stores.store import StoreError
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.security.acls import ALTER_CLUSTER, Acl, AclFilter, Entry, ResourcePattern
from ottla.security.authorizer import Authorizer

logger = logging.getLogger(__name__)


async def handle(broker: Broker, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    context.require(ALTER_CLUSTER)
    if broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    results = []
    async for asked in context.paced(request.filters):
        result = DeleteAclsFilterResult(error_message=None)
        results.append(result)
        try:
            result.matching_acls = [
                _answer(acl) for acl in await _remove(broker, broker.authorizer, read_filter(asked))
            ]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        except StoreError as error:
            logger.error("The metadata store failed: %s", error)
            result.error_code, result.error_message = ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
        await broker.member.feed.sync()
    return DeleteAclsResponse(filter_results=results)


async def _remove(broker: Broker, authorizer: Authorizer, wanted: AclFilter) -> list[Acl]:
    removed = []
    for pattern in sorted({acl.pattern for acl in authorizer.find(wanted)}):
        gone = await remove_entries(broker.store, pattern, partial(_matches, wanted, pattern))
        removed += [Acl(pattern, entry) for entry in sorted(gone)]
    return removed


def _matches(wanted: AclFilter, pattern: ResourcePattern, entry: Entry) -> bool:
    return wanted.matches(Acl(pattern, entry))


def _answer(acl: Acl) -> DeleteAclsMatchingAcl:
    pattern, entry = acl
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )
