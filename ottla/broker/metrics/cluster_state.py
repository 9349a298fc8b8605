"""Metrics of the controller, of waiting requests and of the coordinators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.monitoring.metrics.text import counter, family, gauge, labels, summary

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_PER_PIECE = 200
_DELAYED_OPERATIONS = ("Produce", "Fetch", "DeleteRecords")


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
    waiting = broker.purgatory.sizes()
    yield from family(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "gauge",
        "Requests that wait.",
        ((labels(delayedOperation=name), waiting[name]) for name in _DELAYED_OPERATIONS),
    )
    yield from family(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "gauge",
        "Fetch sessions of consumers.",
        [("", len(broker.fetch_sessions))],
    )


_MANAGER = "kafka_coordinator_group_groupmetadatamanager"
_CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")


def group_metrics(broker: Broker) -> Iterator[str]:
    groups: Counter[tuple[str, str]] = Counter()
    offsets = 0
    for shard in list(broker.groups.runtime):
        for place, group in enumerate(list(shard.groups.values())):
            groups[group.group_type, group.state.value] += 1
            offsets += sum(map(len, group.offsets.by_topic.values()))
            if place % _PER_PIECE == 0:
                yield ""
    yield gauge(f"{_MANAGER}_numgroups", "Groups that are coordinated here.", sum(groups.values()))
    yield gauge(f"{_MANAGER}_numoffsets", "Offsets that groups have committed.", offsets)
    for state in _CLASSIC_STATES:
        count = sum(number for (_, each), number in groups.items() if each == state)
        yield gauge(f"{_MANAGER}_numgroups{state.lower()}", f"Groups in state {state}.", count)
    yield from family(
        "ottla_groups",
        "gauge",
        "Groups that are coordinated here, by type and state.",
        ((labels(type=kind, state=state), number) for (kind, state), number in sorted(groups.items())),
    )


def transaction_metrics(broker: Broker) -> Iterator[str]:
    states: Counter[str] = Counter()
    for shard in list(broker.transactions.runtime):
        for place, which in enumerate(list(shard.ids.values())):
            states[which.current.state.title] += 1
            if place % _PER_PIECE == 0:
                yield ""
    yield from family(
        "ottla_transactions",
        "gauge",
        "Transactional ids that are coordinated here, by state.",
        ((labels(state=state), number) for state, number in sorted(states.items())),
    )
