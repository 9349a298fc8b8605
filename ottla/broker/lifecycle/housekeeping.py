"""Periodic work of a broker: retention, checkpoints, flushes, compaction, expiration of producer ids."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.cluster.partitions.partition import Partition
from ottla.log.cleaner.log_cleaner import Candidate, LogCleaner
from ottla.log.config import CleanerConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)

_LOOK_FOR_FLUSHES_MS = 1000
_LOOK_FOR_ROOM_MS = 1000
_REMOVE_DELETED_MS = 30_000


class Housekeeping:
    """One task per duty, each with its own interval. A failure for one log or directory is logged once and retried in
    the next round; other logs are unaffected. Owner: the event loop.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._high_watermarks: dict[LogDirectory, dict[tuple[str, int], int]] = {}  # as written to disk
        self._logged: set[str] = set()  # failures already logged, until they are resolved

    def start(self) -> None:
        config = self._broker.config
        self._every(config.get_int("log.retention.check.interval.ms"), self._delete_old_segments)
        self._every(config.get_int("log.flush.offset.checkpoint.interval.ms"), self._checkpoint)
        self._every(
            config.get_int("replica.high.watermark.checkpoint.interval.ms"), self._checkpoint_high_watermarks
        )
        self._every(max(1, config.get_int("replica.lag.time.max.ms") // 2), self._check_in_sync)
        self._every(config.get_int("producer.id.expiration.check.interval.ms"), self._expire_producers)
        if self._broker.delegation_tokens.are_enabled:
            self._every(config.get_int("delegation.token.expiry.check.interval.ms"), self._expire_tokens)
        self._every(_LOOK_FOR_FLUSHES_MS, self._flush)
        self._every(_LOOK_FOR_ROOM_MS, self._after_full_disk)
        delay_ms = config.get_int("log.segment.delete.delay.ms")
        self._every(max(100, min(_REMOVE_DELETED_MS, delay_ms)), self._remove_deleted)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._checkpoint_high_watermarks()

    def add(self, interval_ms: int, duty: Callable[[], Awaitable[None]]) -> None:
        self._every(interval_ms, duty)

    def _every(self, interval_ms: int, duty: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                try:
                    await duty()
                except Exception:
                    # A bug. Stopping retention and checkpoints would make things worse.
                    logger.exception("Housekeeping failed and will be tried again")

        self._tasks.append(asyncio.get_running_loop().create_task(run()))

    # Error handling

    async def _try(self, duty: str, log: PartitionLog, work: Awaitable[object]) -> None:
        name = f"{duty} of {log.topic}-{log.partition}"
        try:
            await work
            self._logged.discard(name)
        except (OSError, KafkaError) as error:
            if not self._broker.replicas.storage_failed(log, error) and name not in self._logged:
                self._logged.add(name)
                logger.error("The %s failed and will be tried again: %s", name, error)

    async def _try_directory(
        self, directory: LogDirectory, work: Callable[..., Any], *arguments: Any
    ) -> bool:
        if not directory.online:
            return True
        try:
            await asyncio.to_thread(work, *arguments)
        except OSError as error:
            self._broker.replicas.directory_failed(directory, error)
            return False
        return True

    # Duties

    async def _delete_old_segments(self) -> None:
        now_ms = self._broker.now_ms()
        for partition in list(self._broker.replicas.partitions()):
            await self._try("retention", partition.log, self._delete_old_segments_of(partition, now_ms))
            await asyncio.sleep(0)  # thousands of renames would block the loop

    async def _delete_old_segments_of(self, partition: Partition, now_ms: int) -> None:
        partition.log.delete_old_segments(now_ms, partition.high_watermark)

    async def _checkpoint(self) -> None:
        """Sync sealed segments in a thread and write the recovery points."""
        for partition in list(self._broker.replicas.partitions()):
            log = partition.log
            sealed = log.active.base_offset
            if log.recovery_point < sealed:
                await self._try("flush", log, asyncio.to_thread(log.flush, sealed))
        for directory in self._broker.replicas.log_directories:
            await self._try_directory(directory, directory.checkpoint)

    async def _checkpoint_high_watermarks(self) -> None:
        marks = {(p.topic, p.index): p.high_watermark for p in self._broker.replicas.partitions()}
        for directory in self._broker.replicas.log_directories:
            of_directory = {name: mark for name, mark in marks.items() if name in directory.logs}
            if of_directory != self._high_watermarks.get(directory, {}) and await self._try_directory(
                directory, directory.checkpoint_high_watermarks, of_directory
            ):
                self._high_watermarks[directory] = of_directory

    async def _check_in_sync(self) -> None:
        self._broker.replicas.check_in_sync()

    async def _expire_producers(self) -> None:
        now_ms = self._broker.now_ms()
        expiration_ms = self._broker.config.get_int("producer.id.expiration.ms")
        for partition in self._broker.replicas.partitions():
            partition.log.remove_expired_producers(now_ms, expiration_ms)

    async def _expire_tokens(self) -> None:
        if self._broker.image.controller_id == self._broker.node_id:
            await self._broker.delegation_tokens.remove_expired(self._broker.now_ms())

    async def _flush(self) -> None:
        now_ms = self._broker.now_ms()
        for partition in list(self._broker.replicas.partitions()):
            log = partition.log
            if log.flush_due(now_ms):
                await self._try("flush", log, asyncio.to_thread(log.flush))

    async def _remove_deleted(self) -> None:
        now_ms = self._broker.now_ms()
        for directory in self._broker.replicas.log_directories:
            await self._try_directory(directory, directory.remove_deleted, now_ms)

    async def _after_full_disk(self) -> None:
        replicas = self._broker.replicas
        for directory in replicas.log_directories:
            if directory.full and await self._try_directory(directory, directory.probe):
                replicas.directory_works(directory)
        try:
            await replicas.open_unopened()
        except KafkaError as error:
            logger.debug("%s", error)  # the first failure was logged already


def log_cleaner(broker: Broker) -> LogCleaner:
    config, replicas = broker.config, broker.replicas
    writing = asyncio.Lock()

    def settings() -> CleanerConfig:
        enabled = config.get_bool("log.cleaner.enable")
        return CleanerConfig(
            threads=config.get_int("log.cleaner.threads") if enabled else 0,
            backoff_ms=config.get_int("log.cleaner.backoff.ms"),
            dedupe_buffer_size=config.get_int("log.cleaner.dedupe.buffer.size"),
            io_buffer_size=config.get_int("log.cleaner.io.buffer.size"),
            io_buffer_load_factor=config.get_float("log.cleaner.io.buffer.load.factor"),
            io_max_bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
        )

    def candidates() -> Iterator[Candidate]:
        for partition in replicas.partitions():
            if partition.log.config.compacted:
                yield Candidate(partition.log, partition.last_stable_offset)

    async def checkpoint(log: PartitionLog) -> None:
        for directory in replicas.log_directories:
            if directory.logs.get((log.topic, log.partition)) is log:
                async with writing:
                    await asyncio.to_thread(directory.checkpoint_cleaner)

    return LogCleaner(settings, candidates, checkpoint, replicas.storage_failed)
