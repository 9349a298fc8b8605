"""SaslHandshake, key 17: refused on a listener without SASL.

Behaviour
- ILLEGAL_SASL_STATE, as on Kafka's PLAINTEXT listeners: a client that was told to log in says so, instead of being
  hung up on again and again.

Version notes
- 0 the bytes of the mechanism follow without a header; 1 they follow in SaslAuthenticate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.dispatch import RequestContext


def handle(broker: Broker, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
