"""Apply the image to the replicas of this broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from ottla.cluster.background_tasks import end_tasks
from ottla.log.config import LogDirectoryError
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage, TopicImage
from ottla.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.5
_LAST_PAUSE_SECONDS = 30.0


class LocalReplicas(Protocol):
    """The local replicas, as the feed sees them."""

    def apply(self, topic: TopicImage, changed: Iterable[int]) -> Awaitable[None]: ...

    async def delete_topic(self, name: str) -> None: ...

    def config_changed(self, topic: TopicImage) -> None: ...

    def topic(self, name: str) -> dict[int, Any]: ...


class ImageApplier:
    """Applies the image to the local replicas, topic by topic.

    Invariant: each topic has at most one task, and it uses the newest image. `start` applies earlier changes and
    deletes topics marked for deletion. Failed changes are retried after a pause, which callers do not wait for. Owner:
    the event loop.
    """

    def __init__(self, image: ClusterImage, broker_id: int, on_settled: Callable[[], None]) -> None:
        self._image = image
        self._broker_id = broker_id
        self._on_settled = on_settled
        self._replicas: LocalReplicas | None = None
        self._dirty: dict[str, set[int]] = {}
        self._applying: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, set[int]] = {}  # to be retried
        self._errors: dict[str, Exception] = {}  # errors of the last attempt
        self._pauses: dict[str, float] = {}  # before the next attempt
        self._undeleted: set[str] = set()  # no longer held, but their logs may exist
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self, replicas: LocalReplicas) -> None:
        self._replicas = replicas
        for name in self._image.deleting:
            self._undeleted.add(name)
            self._dirty.setdefault(name, set())
        for name in list(self._dirty):
            self._carry_out(name)

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        await end_tasks(list(self._applying.values()))

    def changed(self, name: str, indexes: Iterable[int]) -> None:
        """Schedule work for new, changed or removed partitions of a topic."""
        self._dirty.setdefault(name, set()).update(indexes)
        self._errors.pop(name, None)
        if self._replicas is not None:
            self._carry_out(name)

    def is_settled(self, topic: str) -> bool:
        """Return True if the replicas match the image or the attempt has failed."""
        return topic not in self._dirty and topic not in self._applying

    def failure(self, topic: str) -> Exception | None:
        """Return the reason why the replicas do not match the image."""
        return self._errors.get(topic)

    def _carry_out(self, name: str) -> None:
        if name not in self._applying:
            self._applying[name] = asyncio.get_running_loop().create_task(self._apply(name))

    async def _apply(self, name: str) -> None:
        assert self._replicas is not None
        try:
            while (indexes := self._dirty.pop(name, None)) is not None:
                indexes |= self._failed.pop(name, set())
                try:
                    await self._replicas_follow(self._replicas, name, indexes)
                    self._pauses.pop(name, None)
                    continue
                except (KafkaError, LogDirectoryError, OSError) as error:
                    logger.error("Cannot apply the new state of topic %s and will try again: %s", name, error)
                    self._errors[name] = error
                except Exception as error:
                    logger.exception("Cannot apply the new state of topic %s and will try again", name)
                    self._errors[name] = error
                self._try_again(name, indexes)
        finally:
            del self._applying[name]
            self._on_settled()

    async def _replicas_follow(self, replicas: LocalReplicas, name: str, indexes: set[int]) -> None:
        topic = self._image.topics.get(name)
        held = replicas.topic(name)
        if (held and (topic is None or _is_another(held, topic))) or (
            topic is None and name in self._undeleted
        ):
            self._undeleted.add(name)
            await replicas.delete_topic(name)
        self._undeleted.discard(name)
        if topic is not None and any(self._concerns(topic, held, index) for index in indexes):
            await replicas.apply(topic, sorted(indexes))

    def _try_again(self, name: str, indexes: set[int]) -> None:
        self._failed.setdefault(name, set()).update(indexes)
        pause = self._pauses.get(name, _FIRST_PAUSE_SECONDS)
        self._pauses[name] = min(2 * pause, _LAST_PAUSE_SECONDS)
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(pause, self._retry, name)

    def _retry(self, name: str) -> None:
        del self._timers[name]
        indexes = self._failed.pop(name, None)
        if indexes is not None:
            self.changed(name, indexes)

    def _concerns(self, topic: TopicImage, held: dict[int, Any], index: int) -> bool:
        partition = topic.partitions.get(index)
        return index in held or (partition is not None and self._broker_id in partition.replicas)


def _is_another(held: dict[int, Any], topic: TopicImage) -> bool:
    return any(partition.topic_id not in (nodes.ZERO_UUID, topic.topic_id) for partition in held.values())
