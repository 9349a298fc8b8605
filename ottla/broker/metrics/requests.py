"""Metrics of requests, the event loop and connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.network.request_times import PHASES
from ottla.monitoring.metrics.text import family, gauge, header, labels, summary

if TYPE_CHECKING:
    from ottla.broker.metrics.broker_metrics import BrokerMetrics

_MILLISECONDS = 0.001
_REQUESTS = "kafka_network_requestmetrics"
_ABOUT = {
    "totaltimems": "From the first byte that could be read to the last that was sent.",
    "requestqueuetimems": "From when a request could be read to when its handler began.",
    "localtimems": "In the handler.",
    "remotetimems": "Waiting for other replicas, for data, for a group.",
    "responsequeuetimems": "From the response to its first byte.",
    "responsesendtimems": "From its first byte to its last.",
}


def request_metrics(metrics: BrokerMetrics) -> Iterator[str]:
    counts = _counts(metrics)
    yield from family(
        f"{_REQUESTS}_requests_total",
        "counter",
        "Requests, by version.",
        (
            (labels(request=name, version=version), count)
            for name, versions in counts.items()
            for version, count in versions.items()
            if count
        ),
    )
    for place, phase in enumerate(PHASES):
        histograms = {labels(request=name): times.phases[place] for name, times in metrics.turns}
        exact = {labels(request=name): sum(versions.values()) for name, versions in counts.items()}
        yield from summary(
            f"{_REQUESTS}_{phase}", _ABOUT[phase], histograms, scale=_MILLISECONDS, counts=exact
        )


def _counts(metrics: BrokerMetrics) -> dict[str, dict[int, int]]:
    """Return request counts by name and version. Fetches count in total and separately for consumers and followers."""
    counts: dict[str, dict[int, int]] = {}
    for served in metrics.broker.dispatcher.served():
        name, followers = served.api.name, served.follower_requests
        counts.setdefault(name, {})[served.version] = served.requests
        if name == "Fetch":
            counts.setdefault("FetchConsumer", {})[served.version] = served.requests - followers
            counts.setdefault("FetchFollower", {})[served.version] = followers
    return counts


def network_metrics(metrics: BrokerMetrics) -> Iterator[str]:
    idle = metrics.idle_share
    # One thread handles both requests and network I/O.
    yield gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
        "The share of the last minute that the loop was idle, 0 to 1.",
        idle,
    )
    yield gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "The same: one thread handles requests and moves their bytes.",
        idle,
    )
    yield from summary(
        "ottla_loop_lateness_ms",
        "Delay of the event loop.",
        {"": metrics.lateness},
        scale=_MILLISECONDS,
    )
    socket_server = "kafka_server_socket_server_metrics"
    listeners = metrics.listeners
    places = [labels(listener=each.name, networkProcessor=0) for each in listeners]
    yield from family(
        f"{socket_server}_connection_count",
        "gauge",
        "Connections.",
        ((place, len(each.connections)) for place, each in zip(places, listeners, strict=True)),
    )
    yield from family(
        f"{socket_server}_connection_creation_total",
        "counter",
        "Connections that were made.",
        ((place, each.accepted) for place, each in zip(places, listeners, strict=True)),
    )
    yield from family(
        f"{socket_server}_connection_close_total",
        "counter",
        "Connections that have ended.",
        ((place, each.ended) for place, each in zip(places, listeners, strict=True)),
    )
    made, ended = metrics.connection_rates()
    about = "Connections per second, in the last minute."
    for name, rate in (("creation", made), ("close", ended)):
        yield gauge(f"{socket_server}_connection_{name}_rate", about, rate)
    queue = "kafka_network_requestchannel"
    for name in ("requestqueuesize", "responsequeuesize"):
        yield gauge(f"{queue}_{name}", "Always 0: requests are handled in the same turn.", 0)
    yield header("kafka_server_app_info", "gauge", "The broker.")
    yield (
        "kafka_server_app_info{"
        + labels(broker_id=metrics.broker.node_id, cluster_id=metrics.broker.cluster_id)
        + "} 1\n"
    )
