"""Metrics of the groups and transactions coordinated by this broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.monitoring.metrics.text import family, gauge, labels

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_PER_PIECE = 200
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
