"""CreateAcls, key 30: refused, because there is no authorizer.

Behaviour
- SECURITY_DISABLED for each of them.

Version notes
- 1 pattern types; 2 flexible; 3 user resources.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import CreateAclsRequest, CreateAclsResponse


def handle(broker: Broker, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
