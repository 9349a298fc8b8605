"""SaslAuthenticate, key 36: refused on a listener without SASL.

Behaviour
- ILLEGAL_SASL_STATE, as on Kafka's PLAINTEXT listeners.

Version notes
- 1 lifetime of the session; 2 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(
    broker: Broker, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    raise KafkaError(
        ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
    )
