"""RenewDelegationToken, key 39: extend the life of a token.

Behaviour
- Errors in order: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED as for CreateDelegationToken, DELEGATION_TOKEN_AUTH_DISABLED,
  DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH unless the client is owner or renewer,
  DELEGATION_TOKEN_EXPIRED.
- The expiry never exceeds the token's maximum lifetime; a period that is not positive means the broker's default.

Version notes
- 2 flexible.
"""

from __future__ import annotations

from ottla.broker.apis.k38_create_delegation_token import check_tokens_allowed
from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.sasl import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    broker: Broker, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    try:
        check_tokens_allowed(context)
        until = await broker.delegation_tokens.renew(
            bytes(request.hmac), context.principal, request.renew_period_ms, broker.now_ms()
        )
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=until)
