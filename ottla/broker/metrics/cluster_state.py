"""Metrics of the controller and of waiting requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.monitoring.metrics.text import counter, family, gauge, labels, summary

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_PER_PIECE = 500


def controller_metrics(broker: Broker) -> Iterator[str]:
    """Only the active controller counts partitions, so that sums over brokers are correct."""
    image, controller, states = broker.image, broker.member.controller, broker.member.states
    offline = astray = topics = partitions = 0
    if controller.is_active:
        live = controller.live
        for place, partition in enumerate(list(image.partitions.values())):
            offline += partition.leader not in live
            astray += partition.leader != partition.replicas[0]
            if place % _PER_PIECE == 0:
                yield ""
        topics, partitions = len(image.topics), len(image.partitions)
    name = "kafka_controller_kafkacontroller"
    yield gauge(f"{name}_activecontrollercount", "1 on the controller.", int(controller.is_active))
    yield gauge(f"{name}_offlinepartitionscount", "Partitions that nobody leads.", offline)
    yield gauge(
        f"{name}_preferredreplicaimbalancecount",
        "Partitions that another than the first replica leads.",
        astray,
    )
    yield gauge(f"{name}_globaltopiccount", "Topics of the cluster.", topics)
    yield gauge(f"{name}_globalpartitioncount", "Partitions of the cluster.", partitions)
    yield gauge(f"{name}_topicstodeletecount", "Topics that are being deleted.", len(image.deleting))
    brokers = len(image.brokers) if controller.is_active else 0
    yield gauge(f"{name}_activebrokercount", "Brokers that are registered.", brokers)
    stats = "kafka_controller_controllerstats"
    yield counter(
        f"{stats}_uncleanleaderelections_total",
        "Elections of a replica that was not in sync.",
        states.unclean_elections,
    )
    yield from summary(
        f"{stats}_leaderelectionrateandtimems",
        "Elections, and how long they took to write.",
        {"": states.election_times},
        scale=0.001,
    )


def purgatory_metrics(broker: Broker) -> Iterator[str]:
    """Count waiting requests. A fetch waits on each requested partition but counts once."""
    fetches: set[int] = set()
    deletions = 0
    for place, partition in enumerate(list(broker.replicas.partitions())):
        fetches.update(map(id, partition.waiters))
        if partition.leading is not None:
            deletions += partition.leading.deletions
        if place % _PER_PIECE == 0:
            yield ""
    waiting = {
        "Produce": len(broker.delayed_produces),
        "Fetch": len(fetches) + broker.leader_fetch_handler.waiting,
        "DeleteRecords": deletions,
    }
    yield from family(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "gauge",
        "Requests that wait.",
        ((labels(delayedOperation=name), count) for name, count in waiting.items()),
    )
    yield from family(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "gauge",
        "Fetch sessions of consumers.",
        [("", len(broker.fetch_sessions))],
    )
