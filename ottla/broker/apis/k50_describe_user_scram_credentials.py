"""DescribeUserScramCredentials, key 50: which users can log in with SCRAM.

Behaviour
- Nobody can: there is no SASL yet, and AlterUserScramCredentials is not served. Kafka's tools ask this whenever they
  show the quotas of users, so it has an answer.

Version notes
- 0 the only one (KIP-554), flexible. No list of users means all; a user without credentials is RESOURCE_NOT_FOUND.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.scram import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    _broker: Broker, request: DescribeUserScramCredentialsRequest, _context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        results=[
            DescribeUserScramCredentialsResult(
                user=user.name,
                error_code=ErrorCode.RESOURCE_NOT_FOUND,
                error_message=f"Attempt to describe a user credential that does not exist: {user.name}",
            )
            for user in request.users or []
        ]
    )
