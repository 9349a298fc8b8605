"""DeleteAcls, key 31: refused, because there is no authorizer.

Behaviour
- SECURITY_DISABLED for each filter.

Version notes
- 1 pattern types; 2 flexible; 3 user resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.dispatch import RequestContext


def handle(broker: Broker, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
