"""Connects the log cleaner to this broker's partitions and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.log.cleaner.log_cleaner import Candidate, LogCleaner
from ottla.log.config import CleanerConfig
from ottla.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


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
