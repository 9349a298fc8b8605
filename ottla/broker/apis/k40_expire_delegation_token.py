"""ExpireDelegationToken, key 40: let a token expire sooner, or at once.

Behaviour
- Errors as for RenewDelegationToken. With a negative period the token is removed at once; whoever has logged in with it
  stays connected until the session ends, as in Kafka.

Version notes
- 2 flexible.
"""

from __future__ import annotations

from ottla.broker.apis.k38_create_delegation_token import check_tokens_allowed
from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.delegation_tokens import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    try:
        check_tokens_allowed(context)
        until = await broker.delegation_tokens.expire(
            bytes(request.hmac), context.principal, request.expiry_time_period_ms, broker.now_ms()
        )
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=until)
