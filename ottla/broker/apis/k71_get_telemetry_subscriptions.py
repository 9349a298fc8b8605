"""GetTelemetrySubscriptions, key 71: which metrics a client is to push, and how often (KIP-714).

Behaviour
- Served only with `telemetry.otlp.endpoint`, as Kafka serves it only with a plugin that takes the metrics.
- Of the subscriptions (`kafka-client-metrics`) those count whose every pattern matches the client. It is asked for the
  metrics of all of them, at the shortest of their intervals; for none, every five minutes, if nothing matches.
- The id of a subscription is a CRC-32C of what it comes to, so that a client learns of a change by its next push.
- A client that asks again within its interval is refused with THROTTLING_QUOTA_EXCEEDED, unless its last push was
  refused in a way that asking mends.

Version notes
- 0 the only one.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.telemetry.subscriptions import ACCEPTED_CODECS
from ottla.broker.telemetry.telemetry import telemetry
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    taken = telemetry(broker)
    try:
        client_id, instance = taken.subscriptions.ask(
            request.client_instance_id, context.connection.facts(), broker.now_ms()
        )
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=taken.max_bytes,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )
