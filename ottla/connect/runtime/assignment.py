"""Assigns partitions to the tasks of a sink."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.connect.api import TopicPartition
from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.data.java_regex import InvalidPattern, compile_java
from ottla.connect.runtime.tasks.clients import consumer_settings, metadata_max_age

_log = logging.getLogger(__name__)


def subscription(config: Mapping[str, str]) -> tuple[list[str], re.Pattern[str] | None]:
    """Return the configured topics or the pattern: exactly one of `topics` and `topics.regex`."""
    names = [each.strip() for each in config.get("topics", "").split(",") if each.strip()]
    pattern = config.get("topics.regex", "").strip()
    if bool(names) == bool(pattern):
        raise ConfigError(
            "Must configure one of topics or topics.regex"
            if not names
            else "topics and topics.regex are mutually exclusive options, but both are set."
        )
    if not pattern:
        return names, None
    try:
        return [], compile_java(pattern)
    except InvalidPattern as error:
        raise ConfigError(f"Invalid value {pattern} for configuration topics.regex: {error}") from None


def by_range(partitions: Sequence[TopicPartition], tasks: int) -> list[tuple[TopicPartition, ...]]:
    """Assign like Kafka's RangeAssignor: each task gets consecutive partitions of every topic."""
    found: list[list[TopicPartition]] = [[] for _ in range(tasks)]
    topics: dict[str, list[TopicPartition]] = {}
    for each in sorted(partitions):
        topics.setdefault(each.topic, []).append(each)
    for members in topics.values():
        share, more = divmod(len(members), tasks)
        start = 0
        for task in range(tasks):
            end = start + share + (task < more)
            found[task] += members[start:end]
            start = end
    return [tuple(each) for each in found]


class SinkTopics:
    """Polls the topics of a sink, and reports new topics and partitions."""

    def __init__(
        self, name: str, config: Mapping[str, str], worker: WorkerConfig, on_change: Callable[[], None]
    ) -> None:
        self._names, self._pattern = subscription(config)
        self._settings = consumer_settings(worker, config)
        self._name = name
        self._on_change = on_change
        self._assigned: list[TopicPartition] | None = None
        self._closed = threading.Event()
        self._every = metadata_max_age(worker, config)
        threading.Thread(target=self._watch, name=f"topics-{name}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def assign(self, tasks: int) -> list[tuple[TopicPartition, ...]]:
        self._assigned = self._look()
        return by_range(self._assigned, tasks)

    def _look(self) -> list[TopicPartition]:
        cluster = Cluster(self._settings)
        try:
            if self._pattern is None:
                topics = cluster.retrying(lambda: cluster.topics(self._names))
            else:
                topics = cluster.retrying(cluster.topics)
        finally:
            cluster.close()
        return sorted(
            TopicPartition(topic.name, each.partition)
            for topic in topics.values()
            if self._pattern is None or (self._pattern.fullmatch(topic.name) and not topic.is_internal)
            for each in topic.partitions
        )

    def _is_complete(self) -> bool:
        found = {each.topic for each in self._assigned or ()}
        return bool(found) and found.issuperset(self._names)

    def _watch(self) -> None:
        # Check more often for a missing topic, because sinks often start before their topic exists.
        while not self._closed.wait(self._every if self._is_complete() else min(self._every, 1.0)):
            assigned = self._assigned
            if assigned is None:
                continue
            try:
                found = self._look()
            except ClientError as error:
                _log.warning("The topics of connector %s cannot be looked up: %s", self._name, error.message)
                continue
            if found != assigned and not self._closed.is_set():
                self._on_change()
