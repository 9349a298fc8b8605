"""GetTelemetrySubscriptions, key 71: tell a client which metrics to push, and how often (KIP-714).

Behaviour
- Served only with `telemetry.otlp.endpoint`, as Kafka serves it only with a metrics plugin.
- A subscription (`kafka-client-metrics`) applies if all its patterns match the client. The client pushes the metrics of
  all matching subscriptions at their shortest interval; without a match it pushes nothing and asks again every five
  minutes.
- The subscription id is a CRC-32C of the resulting subscription, so that a client learns of a change with its next
  push.
- A client that asks again within its interval gets THROTTLING_QUOTA_EXCEEDED, unless its last push failed with an error
  that a new subscription resolves.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.telemetry import ACCEPTED_CODECS, telemetry
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.cluster import (
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
