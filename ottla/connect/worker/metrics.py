"""Connector and task metrics, named as the common JMX exporter rules name Kafka Connect's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ottla.connect.runtime.status import State
from ottla.connect.worker.errors import RequestError
from ottla.connect.worker.herder import Herder
from ottla.monitoring.metrics.text import family, gauge, labels

#: States with their own count in Kafka's worker.
_COUNTED = (State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.RESTARTING)


def connect_lines(herder: Herder) -> Iterator[str]:
    """Report the connectors of this worker. Dashboards sum over the workers of a group."""
    here = herder.connectors.worker_id
    connectors: list[tuple[str, int]] = []
    tasks: list[tuple[str, int]] = []
    counts: dict[str, Counter[str]] = {}
    for name in herder.names():
        try:
            status = herder.status(name)
        except RequestError:
            continue  # deleted in the meantime, or not started yet
        if status["connector"]["worker_id"] == here:
            connectors.append((labels(connector=name, status=status["connector"]["state"].lower()), 1))
        own = [task for task in status["tasks"] if task["worker_id"] == here]
        if own:
            counts[name] = Counter(task["state"] for task in own)
        tasks += [(labels(connector=name, task=task["id"], status=task["state"].lower()), 1) for task in own]
    yield gauge("kafka_connect_worker_connector_count", "Connectors of this worker.", len(connectors))
    yield gauge("kafka_connect_worker_task_count", "Tasks of this worker.", len(tasks))
    yield from family(
        "kafka_connect_worker_connector_total_task_count",
        "gauge",
        "Tasks of a connector.",
        ((labels(connector=name), each.total()) for name, each in counts.items()),
    )
    for state in _COUNTED:
        yield from family(
            f"kafka_connect_worker_connector_{state.value.lower()}_task_count",
            "gauge",
            f"Tasks of a connector that are {state.value}.",
            ((labels(connector=name), each[state.value]) for name, each in counts.items()),
        )
    yield from family("ottla_connect_connector_status", "gauge", "The state of a connector.", connectors)
    yield from family("kafka_connect_connector_status", "gauge", "The state of a task.", tasks)
