"""Create the internal topics of streams groups: changelogs and repartition topics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ottla.cluster.topics.topic_admin import TopicAdmin
from ottla.cluster.topics.topic_decisions import DEFAULT
from ottla.coordinator.groups.streams.topology import InternalTopic
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class StreamsTopics:
    """Heartbeats do not wait for topic creation. A later heartbeat reports that the topics exist, or why not.

    Owner: the event loop.
    """

    def __init__(self, topic_admin: TopicAdmin) -> None:
        self._topic_admin = topic_admin
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, str] = {}

    def create(self, topics: Iterable[InternalTopic]) -> None:
        """Start creating the missing topics, each only once no matter how many members ask."""
        for topic in topics:
            if topic.name not in self._creating:
                task = asyncio.ensure_future(self._create(topic))
                self._creating[topic.name] = task
                task.add_done_callback(lambda _, name=topic.name: self._creating.pop(name, None))  # type: ignore[misc]

    def failures(self, topics: Iterable[InternalTopic]) -> str:
        """Return the reasons of the last failures in one sentence, or an empty string."""
        failed = [
            (topic.name, self._failures[topic.name]) for topic in topics if topic.name in self._failures
        ]
        if not failed:
            return ""
        return f"Creation failed: {', '.join(f'{name} ({reason})' for name, reason in failed)}."

    def close(self) -> None:
        for task in self._creating.values():
            task.cancel()

    async def _create(self, topic: InternalTopic) -> None:
        try:
            await self._topic_admin.create_topic(
                topic.name,
                topic.partitions,
                topic.replication_factor or DEFAULT,
                configs=dict(topic.configs),
            )
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                reason = error.message or error.code.name
                if self._failures.get(topic.name) != reason:  # every heartbeat retries, so log only changes
                    log.warning("Internal topic %s could not be created: %s", topic.name, error)
                self._failures[topic.name] = reason
                return
        self._failures.pop(topic.name, None)
