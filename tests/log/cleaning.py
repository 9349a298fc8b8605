"""Compaction in the test process: the same code, without the worker process and its clock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any
from unittest import mock

from ottla.log.cleaner.cleanable import cleanable, job_for
from ottla.log.cleaner.job import CleanJob
from ottla.log.cleaner.task import CleanerStatus, CleanTask
from ottla.log.cleaner.walk.walk import ReferenceWalk, Walk
from ottla.log.cleaner.worker.compaction import Compaction
from ottla.log.config import CleanerConfig
from ottla.log.partition_log import PartitionLog


class InlineWorker:
    """Replaces the worker process. `meanwhile` is called before each group of segments."""

    def __init__(self, walk: Walk, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._walk = walk
        self._meanwhile = meanwhile
        self.cancelled = False

    async def run(self, job: CleanJob) -> AsyncGenerator[dict[str, Any], None]:
        compaction = Compaction(job, self._walk, lambda seconds: None, lambda progress: None)
        for group in compaction.run():
            if self.cancelled:
                yield {"event": "cancelled"}
                return
            self._meanwhile()
            yield {"event": "group", **asdict(group)}
        yield {"event": "cancelled"} if self.cancelled else {"event": "done", **asdict(compaction.progress)}

    async def cancel(self) -> None:
        self.cancelled = True


def clean(
    log: PartitionLog,
    now_ms: int,
    *,
    walk: Walk | None = None,
    upto: int | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> CleanerStatus:
    """Compact every eligible log, due or not."""
    status = CleanerStatus()
    found = cleanable(log, log.log_end_offset if upto is None else upto, now_ms)
    if found is not None:
        task = CleanTask(found, status)
        job = job_for(found, CleanerConfig(io_buffer_size=5000), now_ms)
        worker: Any = InlineWorker(walk or ReferenceWalk(1000), meanwhile)
        assert asyncio.run(task.run(job, worker)) is None
        if task.end_offset is not None:
            log.first_dirty_offset = task.end_offset
    return status


class Crash(BaseException):
    """Simulates the end of the process."""


@contextmanager
def crash_after(operations: int):
    """Allow this many renames and unlinks, then crash."""
    left = operations

    def guarded(operation: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any, **kwargs: Any) -> None:
            nonlocal left
            if left <= 0:
                raise Crash
            left -= 1
            operation(*args, **kwargs)

        return run

    with (
        mock.patch.object(os, "rename", guarded(os.rename)),
        mock.patch.object(os, "unlink", guarded(os.unlink)),
        mock.patch.object(os, "replace", guarded(os.replace)),
        suppress(Crash),
    ):
        yield
