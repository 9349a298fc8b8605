"""What a broker does without being asked: retention, checkpoints, flushes, expiry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)


class Housekeeping:
    """One task per duty, each on its own interval. Owner: the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        config = self._broker.config
        self._every(config.get_int("log.retention.check.interval.ms"), self._delete_old_segments)
        self._every(config.get_int("log.flush.offset.checkpoint.interval.ms"), self._checkpoint)
        self._every(
            config.get_int("replica.high.watermark.checkpoint.interval.ms"), self._checkpoint_high_watermarks
        )
        self._every(config.get_int("producer.id.expiration.check.interval.ms"), self._expire_producers)
        self._every(min(config.get_int("log.flush.scheduler.interval.ms"), 3000), self._flush)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _every(self, interval_ms: int, duty: Callable[[], None]) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                try:
                    duty()
                except (OSError, KafkaError):
                    logger.exception("Housekeeping failed and will be tried again")

        self._tasks.append(asyncio.get_running_loop().create_task(run()))

    def _delete_old_segments(self) -> None:
        now_ms = self._broker.now_ms()
        for partition in self._broker.replicas.partitions():
            partition.log.delete_old_segments(now_ms, partition.high_watermark)

    def _checkpoint(self) -> None:
        for directory in self._broker.replicas.log_directories:
            directory.checkpoint()
