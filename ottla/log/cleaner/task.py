"""The event loop's part of a compaction: the cleaner process, the swap of segments, and the status."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ottla.helper_process import HelperProcess
from ottla.log.cleaner.cleanable import CleanableLog
from ottla.log.cleaner.job import CleanJob
from ottla.log.files.checkpoint import TopicPartition
from ottla.log.segments.partition_segments import discard_cleaned
from ottla.log.segments.segment import LogSegment

logger = logging.getLogger(__name__)

#: Logs of at least this size take long in plain Python, which is worth a remark.
_LARGE_BYTES = 16 << 20


_MODULE = "ottla.log.cleaner.worker.main"


class WorkerDied(Exception):
    """The process ended during a job. The message tells how."""


class WorkerProcess:
    """Invariant: at most one process with at most one job. Owner: the event loop."""

    def __init__(self) -> None:
        self._process = HelperProcess(_MODULE)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def run(self, job: CleanJob) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of a job; the last one is `done`, `failed` or `cancelled`."""
        if self._process.pid is None:
            try:
                await self._process.start()
            except OSError as error:
                raise WorkerDied(f"it could not be started: {error.strerror or error}") from None
        await self._process.send({"op": "clean", "job": job.to_json()})
        while (event := await self._process.receive()) is not None:
            yield event
            if event["event"] in ("done", "failed", "cancelled"):
                return
        code = await self._process.end()
        raise WorkerDied(f"the cleaner's process ended with {'signal' if code < 0 else 'code'} {abs(code)}")

    async def cancel(self) -> None:
        """Ask the running job to stop. Its events continue until it confirms."""
        await self._process.send({"op": "cancel"})

    async def end(self) -> None:
        """End the process. It notices at once when idle, and after a chunk when working."""
        await self._process.end()


@dataclass(slots=True)
class RunningClean:
    """A running compaction. `bytes_total` counts the dirty section twice, since both passes read it."""

    name: TopicPartition
    bytes_total: int
    bytes_read: int = 0
    records_read: int = 0
    records_kept: int = 0

    @property
    def fraction(self) -> float:
        return min(1.0, self.bytes_read / self.bytes_total) if self.bytes_total else 1.0


@dataclass(slots=True)
class FinishedClean:
    """Outcome of a log's last compaction."""

    name: TopicPartition
    seconds: float
    bytes_read: int
    bytes_before: int
    bytes_after: int
    records_read: int
    records_kept: int


@dataclass(slots=True)
class CleanerStatus:
    """Progress, backlog and failures of the log cleaner. Owner: the event loop."""

    running: dict[TopicPartition, RunningClean] = field(default_factory=dict)
    #: Bytes waiting for compaction by log, as of the last check.
    backlog: dict[TopicPartition, int] = field(default_factory=dict)
    max_dirty_ratio: float = 0.0
    #: Logs that cannot be compacted, with the reason. A restart retries them.
    uncleanable: dict[TopicPartition, str] = field(default_factory=dict)
    #: Reason why a large log was compacted in plain Python; None if that never happened.
    uncompiled: str | None = None
    last: FinishedClean | None = None
    cleaned_logs: int = 0
    cancelled: int = 0
    bytes_read: int = 0
    records_read: int = 0
    records_kept: int = 0


class CleanTask:
    """Swaps in each finished group while the log still matches its job.

    Owner: the event loop.
    """

    def __init__(self, found: CleanableLog, status: CleanerStatus) -> None:
        log = found.log
        self._log = log
        self._config = log.config
        self._status = status
        self._truncations = log.truncations
        self._waiting = {segment.base_offset: segment for segment in found.segments}
        self._sizes = {segment.base_offset: segment.size for segment in found.segments}
        self._bytes_after = 0
        self._began = time.monotonic()
        name = (log.topic, log.partition)
        self._running = RunningClean(name, found.clean_bytes + 2 * found.dirty_bytes)
        status.running[name] = self._running
        self.error: OSError | None = None  # file error met by the worker
        self.is_temporary = False  # the failure may pass, like a full disk
        self.end_offset: int | None = None  # end of the compacted part, after success

    async def run(self, job: CleanJob, worker: WorkerProcess) -> str | None:
        """Return why the log cannot be compacted, or None if it was compacted or has changed in the meantime."""
        logger.debug(
            "compacting %s from offset %d to %d",
            job.directory,
            job.first_dirty_offset,
            job.first_uncleanable_offset,
        )
        gone = False
        async with aclosing(worker.run(job)) as events:
            async for event in events:
                self._note(event)
                kind = event["event"]
                if kind == "group" and gone:
                    discard_cleaned(job.directory, event["bases"][0])
                elif kind == "group" and not self._swap(event):
                    gone = True
                    await worker.cancel()
                elif kind == "failed" and not gone and self._is_same():
                    self.is_temporary = event.get("temporary", False)
                    if event.get("errno") is not None:
                        self.error = OSError(event["errno"], str(event["reason"]))
                    return str(event["reason"])
                elif kind == "done" and not gone and self._is_same():
                    self.end_offset = event["latest_offset"] + 1
                    self._finish(event)
                elif kind == "uncompiled":
                    self._note_uncompiled(event["reason"])
        if self.end_offset is None:
            self._status.cancelled += 1
            logger.info("%s changed while it was being compacted; its compaction starts again", job.directory)
        return None

    def _is_same(self) -> bool:
        """Return True if nothing was truncated or deleted since: knowledge about later records must still hold."""
        log = self._log
        return log.truncations == self._truncations and log.offline_reason is None

    def _swap(self, event: dict[str, Any]) -> bool:
        """Swap in a cleaned segment. Return False if its source segments no longer exist."""
        log = self._log
        old = [self._waiting[base] for base in event["bases"]]
        current = {segment.base_offset: segment for segment in log.segments}
        if not self._is_same() or any(
            current.get(segment.base_offset) is not segment
            or segment.size != self._sizes[segment.base_offset]
            for segment in old
        ):
            if log.offline_reason is None or os.path.isdir(log.path):
                discard_cleaned(str(log.path), old[0].base_offset)
            return False
        new = LogSegment(str(log.path), old[0].base_offset, log.config)
        new.size = event["size"]
        new.max_timestamp = event["max_timestamp"]
        new.offset_of_max_timestamp = event["offset_of_max_timestamp"]
        log.replace_segments(old, new, int(time.time() * 1000))
        self._bytes_after += new.size
        return True

    def _note(self, event: dict[str, Any]) -> None:
        if "bytes_read" in event:
            running = self._running
            running.bytes_read = event["bytes_read"]
            running.records_read = event["records_read"]
            running.records_kept = event["records_kept"]

    def _note_uncompiled(self, reason: str) -> None:
        size = sum(self._sizes.values())
        if size < _LARGE_BYTES or self._status.uncompiled is not None:
            return
        self._status.uncompiled = reason
        logger.warning(
            "Compacting %s-%d (%d MB) in plain Python, which is slow: %s. For compiled code, which is many times "
            "faster, run: pip install 'ottla[server]'",
            *self._running.name,
            size >> 20,
            reason,
        )

    def _finish(self, event: dict[str, Any]) -> None:
        status = self._status
        done = status.last = FinishedClean(
            self._running.name,
            time.monotonic() - self._began,
            event["bytes_read"],
            sum(self._sizes.values()),
            self._bytes_after,
            event["records_read"],
            event["records_kept"],
        )
        status.cleaned_logs += 1
        status.bytes_read += done.bytes_read
        status.records_read += done.records_read
        status.records_kept += done.records_kept
        logger.info(
            "compacted %s-%d up to offset %d: %d of %d records and %d of %d bytes are left, in %.1f s",
            *done.name,
            self.end_offset,
            done.records_kept,
            done.records_read,
            done.bytes_after,
            done.bytes_before,
            done.seconds,
        )
