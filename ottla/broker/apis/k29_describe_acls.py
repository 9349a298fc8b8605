"""DescribeAcls, key 29: refused, because there is no authorizer.

Behaviour
- SECURITY_DISABLED, as Kafka answers without an authorizer. MirrorMaker and consoles take it for "nothing to do here",
  but an API that is missing for an error.

Version notes
- 1 pattern types; 2 flexible; 3 user resources.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.acls import DescribeAclsRequest, DescribeAclsResponse


def handle(broker: Broker, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
