"""DescribeAcls, key 29: there is no authorizer, and tools are told so as by Kafka without one.

Behaviour
- SECURITY_DISABLED, which MirrorMaker and consoles take for "nothing to do here"; an API that is missing is an error to
  them.

Version notes
- 1 pattern types; 2 flexible; 3 user resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.dispatch import RequestContext


def handle(broker: Broker, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )
