"""SaslAuthenticate, key 36: one token of a login, and the broker's reply.

Behaviour
- A failed login gets SASL_AUTHENTICATION_FAILED after `connection.failed.authentication.delay.ms`, with a message that
  does not reveal whether the user exists. The broker then closes the connection.
- ILLEGAL_SASL_STATE after a login, and on listeners without SASL.

Version notes
- 1 lifetime of the session; 2 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(
    broker: Broker, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    login = context.connection.login
    if login is None:
        raise KafkaError(
            ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
        )
    return await login.authenticate(request)
