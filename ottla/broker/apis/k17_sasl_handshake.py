"""SaslHandshake, key 17: refused on a listener without SASL.

Behaviour
- ILLEGAL_SASL_STATE, as on Kafka's PLAINTEXT listeners: a client that is configured to log in can report why it
  cannot, instead of being disconnected again and again.

Version notes
- 0 the bytes of the mechanism follow without a header; 1 they follow in SaslAuthenticate.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse


def handle(broker: Broker, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
