"""Answers of `/livez` and `/readyz`: does the process work, and may clients and rolling restarts rely on it?"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import NamedTuple

from ottla.broker.broker import Broker
from ottla.broker.metrics.broker_metrics import RUNNING, STARTING
from ottla.cluster.partitions.partition import NO_LEADER
from ottla.metadata.cluster_image import PartitionImage

_PER_SLICE = 500
_NAMED = 5

_NO_LEADER = "have no leader"
_OFFLINE = "are offline here"
_UNOPENED = "are not open yet"
_LAGGING = "are not in sync here"


class Readiness(NamedTuple):
    state: int  # a broker state as in Kafka's metrics
    broker_id: int
    reasons: list[str]

    @property
    def is_ready(self) -> bool:
        return not self.reasons

    def as_json(self) -> dict[str, object]:
        status = "ready" if self.is_ready else "not ready"
        return {"status": status, "broker": self.broker_id, "reasons": self.reasons}


async def readiness(state: int, broker_id: int, broker: Broker | None, *, with_names: bool) -> Readiness:
    """Check registration, leadership and the ISR of each partition of this broker.

    Other brokers do not matter: a broker that is up to date stays ready while its neighbour restarts. `with_names` adds
    names of partitions, which callers without a login must not learn from a secured broker.
    """
    if broker is None or state == STARTING:
        return Readiness(state, broker_id, ["The broker starts."])
    if state != RUNNING:
        return Readiness(state, broker_id, ["The broker stops and hands its leadership over."])
    reasons = []
    member = broker.member.membership
    registered = broker.image.brokers.get(broker.node_id)
    if member.epoch < 0 or registered is None or registered.epoch != member.epoch:
        reasons.append("The broker is not registered in its cluster.")
    if not broker.replicas.leads_for_certain:
        reasons.append("The broker has lost ZooKeeper, and other brokers may lead its partitions by now.")
    reasons += await _partition_reasons(broker, with_names)
    return Readiness(state, broker_id, reasons)


async def _partition_reasons(broker: Broker, with_names: bool) -> list[str]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for place, partition in enumerate(list(broker.image.partitions.values())):
        if place % _PER_SLICE == _PER_SLICE - 1:
            await asyncio.sleep(0)
        if broker.node_id not in partition.replicas or partition.topic in broker.image.deleting:
            continue
        problem = _problem(broker, partition)
        if problem is not None:
            found[problem].append(f"{partition.topic}-{partition.partition}")
    return [_sentence(problem, names, with_names) for problem, names in sorted(found.items())]


def _problem(broker: Broker, partition: PartitionImage) -> str | None:
    if (partition.topic, partition.partition) in broker.replicas.offline:
        return _OFFLINE
    held = broker.replicas.topic(partition.topic).get(partition.partition)
    if held is None:
        return _UNOPENED
    if partition.leader == NO_LEADER:
        return _NO_LEADER
    # A new replica of a reassignment is expected to lag; its old replicas serve clients until it has caught up.
    if broker.node_id not in partition.isr and broker.node_id not in partition.adding_replicas:
        return _LAGGING
    return None


def _sentence(problem: str, names: list[str], with_names: bool) -> str:
    count = len(names)
    shown = ""
    if with_names:
        more = f" and {count - _NAMED} more" if count > _NAMED else ""
        shown = f": {', '.join(names[:_NAMED])}{more}"
    if count == 1:
        problem = problem.replace("are ", "is ").replace("have ", "has ")
    return f"{count} {'partition' if count == 1 else 'partitions'} {problem}{shown}."
