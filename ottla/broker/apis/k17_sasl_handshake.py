"""SaslHandshake, key 17: choose the SASL mechanism.

Behaviour
- For an unsupported mechanism the broker returns UNSUPPORTED_SASL_MECHANISM with the enabled mechanisms, then closes
  the connection.
- ILLEGAL_SASL_STATE on a listener without SASL, and after a login that needs no re-authentication. A client configured
  for SASL can then report the reason, instead of being disconnected again and again.
- `broker.security.sasl_login` has the login steps.

Version notes
- 0 the mechanism's bytes follow without a header; 1 they follow in SaslAuthenticate.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse


def handle(broker: Broker, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    login = context.connection.login
    if login is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    return login.handshake(request, context.version)
