"""Compact logs in separate processes, the dirtiest first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from ottla.log.cleaner.cleanable import CleanableLog, cleanable, job_for
from ottla.log.cleaner.task import CleanerStatus, CleanTask, WorkerDied, WorkerProcess
from ottla.log.config import CleanerConfig, StorageError
from ottla.log.files.checkpoint import TopicPartition, sync_path
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

_LOOK_AT_ONCE = 100
_MOST_DEATHS = 2
_RETRY_SECONDS = 60


@dataclass(slots=True)
class Candidate:
    """A log and its committed end."""

    log: PartitionLog
    last_stable_offset: int


class LogCleaner:
    """Invariant: at most one process works on a log; a swapped-in segment was made of exactly the segments it replaces.

    Only the swap, a handful of renames, happens here; the other process reads all records. Owner: the event loop.
    """

    def __init__(
        self,
        settings: Callable[[], CleanerConfig],
        candidates: Callable[[], Iterable[Candidate]],
        checkpoint: Callable[[PartitionLog], Awaitable[None]],
        storage_failed: Callable[[PartitionLog, Exception], bool] = lambda log, error: False,
    ) -> None:
        """`storage_failed` takes logs of a failed disk offline. It returns False for any other error."""
        self._settings = settings
        self.status = CleanerStatus()
        self._candidates = candidates
        self._checkpoint = checkpoint
        self._storage_failed = storage_failed
        self._tasks: list[asyncio.Task[None]] = []
        self._deaths: dict[TopicPartition, int] = {}
        self._retry_at: dict[TopicPartition, float] = {}

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()) for _ in range(self._settings().threads)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        worker = WorkerProcess()
        idle_since = time.monotonic()
        try:
            while True:
                try:
                    found = await self._dirtiest()
                    if found is not None:
                        await self._clean(found, worker)
                        idle_since = time.monotonic()
                        continue
                except (OSError, KafkaError) as error:
                    logger.error(
                        "The log cleaner could not look for logs to compact and will try again: %s", error
                    )
                if time.monotonic() - idle_since >= self._settings().idle_seconds:
                    await worker.end()
                await asyncio.sleep(self._settings().backoff_ms / 1000)
        finally:
            await worker.end()

    async def _dirtiest(self) -> CleanableLog | None:
        """Return the log with the highest dirty ratio, if it is due. Also updates the backlog."""
        status, now_ms = self.status, int(time.time() * 1000)
        backlog: dict[TopicPartition, int] = {}
        best: CleanableLog | None = None
        highest = 0.0
        for at, candidate in enumerate(list(self._candidates()), 1):
            if at % _LOOK_AT_ONCE == 0:
                await asyncio.sleep(0)
            log = candidate.log
            name = (log.topic, log.partition)
            if not log.config.compacted or name in status.running:
                continue
            if name in status.uncleanable or time.monotonic() < self._retry_at.get(name, 0):
                continue
            try:
                # Appends roll as well. Without this the last records would wait for the next one.
                if log.offline_reason is None and log.active.is_due_to_roll(now_ms):
                    log.roll()
                found = cleanable(log, candidate.last_stable_offset, now_ms)
            except OSError as error:
                if not self._storage_failed(log, error):
                    raise
                continue
            if found is None:
                continue
            highest = max(highest, found.dirty_ratio)
            if found.is_due:
                backlog[name] = found.dirty_bytes
                if best is None or found.dirty_ratio > best.dirty_ratio:
                    best = found
        status.backlog, status.max_dirty_ratio = backlog, highest
        if best is not None and (best.log.topic, best.log.partition) in status.running:
            return None  # another task took it during the await
        return best

    async def _clean(self, found: CleanableLog, worker: WorkerProcess) -> None:
        log = found.log
        name = (log.topic, log.partition)
        task = CleanTask(found, self.status)
        try:
            reason = await task.run(job_for(found, self._settings(), int(time.time() * 1000)), worker)
            self._deaths.pop(name, None)
            if reason is not None and task.is_temporary:
                self._retry_at[name] = time.monotonic() + _RETRY_SECONDS
                logger.warning("%s-%d could not be compacted; the cleaner will try again: %s", *name, reason)
            elif reason is not None:
                if task.error is None or not self._storage_failed(log, task.error):
                    self._set_aside(name, reason)
            elif task.end_offset is not None:
                log.first_dirty_offset = task.end_offset
                # Records marked clean in the checkpoint must be clean even after a power failure.
                await asyncio.to_thread(sync_path, str(log.path))
                await self._checkpoint(log)
        except WorkerDied as error:
            self._deaths[name] = self._deaths.get(name, 0) + 1
            logger.warning("The compaction of %s-%d was interrupted: %s", *name, error)
            if self._deaths[name] >= _MOST_DEATHS:
                self._set_aside(name, str(error))
        except (OSError, KafkaError) as error:
            await worker.end()  # its remaining work for this log is obsolete
            of_storage = isinstance(error, OSError | StorageError)
            if not of_storage or not self._storage_failed(log, error):
                self._set_aside(name, str(error))
        finally:
            self.status.running.pop(name, None)

    def _set_aside(self, name: TopicPartition, reason: str) -> None:
        self.status.uncleanable[name] = reason
        logger.error("%s-%d cannot be compacted and stays unchanged until the next start: %s", *name, reason)

    def forget(self, topic: str) -> None:
        """Forget a deleted topic. A new topic with the same name may be compacted."""
        for name in [name for name in self.status.uncleanable if name[0] == topic]:
            del self.status.uncleanable[name]
