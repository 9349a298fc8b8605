"""DescribeUserScramCredentials, key 50: which users can log in with SCRAM.

Behaviour
- Mechanisms and iterations, never the credentials. No list of users means all; a user without credentials is
  RESOURCE_NOT_FOUND, one that is named twice DUPLICATE_RESOURCE.
- The store is asked, so that what another broker has just answered is seen.

Version notes
- 0 the only one (KIP-554), flexible.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.security.scram_users import NUMBERS
from ottla.metadata.scram_credentials import load_scram_credentials
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.scram import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.security.rights import DESCRIBE_CLUSTER
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
