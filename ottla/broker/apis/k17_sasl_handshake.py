"""SaslHandshake, key 17: choose the mechanism of a login.

Behaviour
- UNSUPPORTED_SASL_MECHANISM with the mechanisms that the listener has, and then the connection is closed.
- On a listener without SASL, and after a login that need not be repeated, ILLEGAL_SASL_STATE: a client that is
  configured to log in can report why it cannot, instead of being disconnected again and again.
- What a login goes through is in `broker.security.sasl_login`.

Version notes
- 0 the bytes of the mechanism follow without a header; 1 they follow in SaslAuthenticate.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse


def handle(broker: Broker, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    login = context.connection.login
    if login is None:
        raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
    return login.handshake(request, context.version)
