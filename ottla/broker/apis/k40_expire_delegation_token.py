"""ExpireDelegationToken, key 40: expire a token sooner, or immediately.

Behaviour
- Errors as for RenewDelegationToken. A negative period removes the token immediately. As in Kafka, clients that logged
  in with it stay connected until their sessions end.

Version notes
- 2 flexible.
"""

from __future__ import annotations

from ottla.broker.apis.k38_create_delegation_token import check_tokens_allowed
from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.sasl import (
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
