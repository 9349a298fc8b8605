"""DescribeUserScramCredentials, key 50: list the SCRAM credentials of users.

Behaviour
- The response has mechanisms and iterations, never the credentials. A missing list means all users. A user without
  credentials is RESOURCE_NOT_FOUND, a user named twice DUPLICATE_RESOURCE.
- The broker reads the store, so changes just acknowledged by other brokers are visible.

Version notes
- 0 is the only version (KIP-554), flexible.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.security.scram_users import NUMBERS
from ottla.metadata.credentials import load_scram_credentials
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.security.acls import DESCRIBE_CLUSTER
from ottla.security.sasl.scram import parse_credential


async def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    context.require(DESCRIBE_CLUSTER)
    known = await load_scram_credentials(broker.store)
    times: Counter[str] = Counter()
    if request.users:
        async for user in context.paced(request.users):
            times[user.name] += 1
    else:
        times.update(sorted(known))
    return DescribeUserScramCredentialsResponse(
        results=[
            _result(name, known.get(name, {}), count) async for name, count in context.paced(times.items())
        ]
    )


def _result(name: str, credentials: dict[str, str], times: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=name)
    if times > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    elif not credentials:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
    else:
        result.credential_infos = [
            CredentialInfo(mechanism=NUMBERS[mechanism], iterations=parse_credential(text).iterations)
            for mechanism, text in sorted(credentials.items())
        ]
    return result
