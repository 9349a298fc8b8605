"""Checkpoints of followers' log start offsets.

A follower reports a new log start offset only once it is on disk. DeleteRecords completes after all replicas have
reported theirs: the deleted records cannot return, whichever replica leads after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ottla.cluster.background_tasks import end_tasks
from ottla.cluster.partitions.partition import Partition
from ottla.log.config import storage_error
from ottla.log.log_directory import LogDirectory


class LogStartCheckpoints:
    """Writes checkpoints in groups, in a thread. Owner: the event loop."""

    def __init__(
        self, directories: Iterable[LogDirectory], on_checkpoint: Callable[[Partition], None]
    ) -> None:
        self._directories = directories
        self._on_checkpoint = on_checkpoint
        self._waiting: set[Partition] = set()
        self._task: asyncio.Task[None] | None = None

    def write(self, partition: Partition) -> None:
        """Checkpoint a partition's log start offset, then call `written`."""
        self._waiting.add(partition)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, set()
            for directory in self._directories:
                of_directory = [
                    each for each in waiting if directory.logs.get((each.topic, each.index)) is each.log
                ]
                if not of_directory:
                    continue
                try:
                    await asyncio.to_thread(directory.checkpoint)
                except OSError as error:
                    failure = storage_error(f"cannot write to {directory.path}", error)
                    for partition in of_directory:
                        partition.storage_failed(failure)
                    continue
                for partition in of_directory:
                    self._on_checkpoint(partition)

    async def close(self) -> None:
        self._waiting.clear()
        if self._task is not None:
            await end_tasks([self._task])
