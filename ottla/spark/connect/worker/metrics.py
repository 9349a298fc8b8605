"""Connectors and tasks as metrics, by the names that the usual rules make of Kafka Connect's."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.metrics.text import family, gauge, labels
from ottla.spark.connect.worker.errors import RequestError
from ottla.spark.connect.worker.herder import Herder


def connect_lines(herder: Herder) -> Iterator[str]:
    """Of all connectors of the group, as every worker knows them: take those of one worker."""
    names = herder.names()
    connectors: list[tuple[str, int]] = []
    tasks: list[tuple[str, int]] = []
    for name in names:
        try:
            status = herder.status(name)
        except RequestError:
            continue  # deleted meanwhile, or not started yet
        connectors.append((labels(connector=name, status=status["connector"]["state"].lower()), 1))
        tasks += [
            (labels(connector=name, task=task["id"], status=task["state"].lower()), 1)
            for task in status["tasks"]
        ]
    yield gauge("kafka_connect_worker_connector_count", "Connectors.", len(names))
    yield gauge("kafka_connect_worker_task_count", "Tasks.", len(tasks))
    yield from family("ottla_connect_connector_status", "gauge", "The state of a connector.", connectors)
    yield from family("kafka_connect_connector_status", "gauge", "The state of a task.", tasks)
