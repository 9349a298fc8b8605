"""Client metrics, enabled if a collector is configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.broker.telemetry.forwarder import Forwarder
from ottla.broker.telemetry.subscriptions import Subscriptions
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.monitoring.metrics.text import counter, gauge

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

#: APIs served only with a collector.
KEYS = (71, 72)


class ClientTelemetry:
    def __init__(self, endpoint: str, config: BrokerConfig, image: ClusterImage) -> None:
        self.max_bytes = config.get_int("telemetry.max.bytes")
        self.subscriptions = Subscriptions(lambda: image.client_metrics)
        self.forwarder = Forwarder(endpoint, self.max_bytes)

    @classmethod
    def of(cls, config: BrokerConfig, image: ClusterImage) -> ClientTelemetry | None:
        """Return None without a collector. Kafka serves these APIs only with a metrics receiver as well."""
        endpoint = config.get_optional_str("telemetry.otlp.endpoint")
        if not endpoint:
            return None
        try:
            return cls(endpoint, config, image)
        except ValueError as error:
            raise ConfigError(f"telemetry.otlp.endpoint: {error}.") from None

    def lines(self) -> Iterator[str]:
        name = "ottla_client_telemetry"
        yield gauge(f"{name}_instances", "Clients with a metrics subscription.", len(self.subscriptions))
        counts: Mapping[str, tuple[int, str]] = {
            "exported": (self.forwarder.exported, "Pushes that the collector has taken."),
            "failed": (self.forwarder.failed, "Pushes that it has not taken, or that were not understood."),
            "dropped": (self.forwarder.dropped, "Pushes that came while too many waited."),
        }
        for each, (count, about) in counts.items():
            yield counter(f"{name}_{each}_total", about, count)


def telemetry(broker: Broker) -> ClientTelemetry:
    assert broker.telemetry is not None, "these APIs are served only with it"
    return broker.telemetry
