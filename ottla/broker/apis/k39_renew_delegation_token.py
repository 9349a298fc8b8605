"""RenewDelegationToken, key 39: let a token live longer.

Behaviour
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED as for CreateDelegationToken, DELEGATION_TOKEN_AUTH_DISABLED,
  DELEGATION_TOKEN_NOT_FOUND; DELEGATION_TOKEN_OWNER_MISMATCH for who is neither owner nor renewer; then
  DELEGATION_TOKEN_EXPIRED.
- Never beyond its maximum; a period that is not positive is that of the broker.

Version notes
- 2 flexible.
"""

from __future__ import annotations

from ottla.broker.apis.k38_create_delegation_token import check_tokens_allowed
from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.delegation_tokens import (
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
