"""PushTelemetry, key 72: receive metrics of a client and forward them to a collector (KIP-714).

Behaviour
- Served only with `telemetry.otlp.endpoint`. The response does not wait for the collector. The queue is bounded;
  further pushes are dropped and counted.
- Rejected: an outdated subscription (UNKNOWN_SUBSCRIPTION_ID), a codec that was not offered
  (UNSUPPORTED_COMPRESSION_TYPE), more than `telemetry.max.bytes` (TELEMETRY_TOO_LARGE), an early push
  (THROTTLING_QUOTA_EXCEEDED), any push after a final one (INVALID_REQUEST).
- Uncompressed metrics are validated before they are accepted (INVALID_RECORD). Compressed metrics are validated later
  in a thread, which counts malformed ones.
- Each resource gets attributes that identify the client, as KIP-714 requires of brokers.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.telemetry import MalformedMetrics, kafka_uuid, telemetry, with_attributes
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.cluster import PushTelemetryRequest, PushTelemetryResponse


def handle(broker: Broker, request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    taken = telemetry(broker)
    facts = context.connection.facts()
    data = bytes(request.metrics)
    try:
        taken.subscriptions.check_push(
            request.client_instance_id,
            facts,
            subscription_id=request.subscription_id,
            terminating=request.terminating,
            codec=request.compression_type,
            size=len(data),
            max_size=taken.max_bytes,
            now_ms=broker.now_ms(),
        )
        if data and request.compression_type == Codec.NONE:
            with_attributes(data, {})
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    except MalformedMetrics:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD)
    if data:
        attributes = {
            "client_instance_id": kafka_uuid(request.client_instance_id),
            **facts._asdict(),
            "principal": context.principal.name,
            "broker_id": str(broker.node_id),
            "cluster_id": broker.cluster_id,
        }
        taken.forwarder.offer(request.compression_type, data, attributes)
    return PushTelemetryResponse()
