"""What a broker does without being asked: retention, checkpoints, flushes, expiry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

_LOOK_FOR_FLUSHES_MS = 1000
_REMOVE_DELETED_MS = 30_000
_EXPIRE_PRODUCERS_MS = 600_000


class Housekeeping:
    """One task per duty, each on its own interval. Owner: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._marks: dict[tuple[str, int], int] = {}

    def start(self) -> None:
        config = self._broker.config
        self._every(config.get_int("log.retention.check.interval.ms"), self._delete_old_segments)
        self._every(config.get_int("log.flush.offset.checkpoint.interval.ms"), self._checkpoint)
        self._every(
            config.get_int("replica.high.watermark.checkpoint.interval.ms"), self._checkpoint_high_watermarks
        )
        self._every(_EXPIRE_PRODUCERS_MS, self._expire_producers)
        self._every(_LOOK_FOR_FLUSHES_MS, self._flush)
        self._every(_REMOVE_DELETED_MS, self._remove_deleted)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _every(self, interval_ms: int, duty: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                try:
                    await duty()
                except (OSError, KafkaError) as error:
                    logger.error("Housekeeping failed and will be tried again: %s", error)

        self._tasks.append(asyncio.get_running_loop().create_task(run()))

    async def _delete_old_segments(self) -> None:
        now_ms = self._broker.now_ms()
        for partition in list(self._broker.replicas.partitions()):
            partition.log.delete_old_segments(now_ms, partition.high_watermark)
            await asyncio.sleep(0)  # renames are quick, thousands of them are not

    async def _checkpoint(self) -> None:
        """Sync what was written since, off the loop, and note from where a recovery would have to begin."""
        for partition in list(self._broker.replicas.partitions()):
            sealed = partition.log.active.base_offset
            if partition.log.recovery_point < sealed:
                await asyncio.to_thread(partition.log.flush, sealed)
        for directory in self._broker.replicas.log_directories:
            await asyncio.to_thread(directory.checkpoint)

    async def _checkpoint_high_watermarks(self) -> None:
        marks = {(p.topic, p.index): p.high_watermark for p in self._broker.replicas.partitions()}
        if marks == self._marks:
            return
        self._marks = marks
        for directory in self._broker.replicas.log_directories:
            of_directory = {name: mark for name, mark in marks.items() if name in directory.logs}
            await asyncio.to_thread(directory.checkpoint_high_watermarks, of_directory)

    async def _expire_producers(self) -> None:
        now_ms = self._broker.now_ms()
        expiration_ms = self._broker.config.get_int("producer.id.expiration.ms")
        for partition in self._broker.replicas.partitions():
            partition.log.remove_expired_producers(now_ms, expiration_ms)

    async def _flush(self) -> None:
        now_ms = self._broker.now_ms()
        for partition in list(self._broker.replicas.partitions()):
            if partition.log.flush_due(now_ms):
                await asyncio.to_thread(partition.log.flush)

    async def _remove_deleted(self) -> None:
        now_ms = self._broker.now_ms()
        for directory in self._broker.replicas.log_directories:
            await asyncio.to_thread(directory.remove_deleted, now_ms)
