"""fsync of a log: everything below its recovery point is on disk."""

from __future__ import annotations

import os
import time
from threading import Lock
from typing import TYPE_CHECKING

from ottla.log.errors import is_passing, storage_error
from ottla.log.files.checkpoint import sync_path
from ottla.log.files.flush_times import flush_times

if TYPE_CHECKING:
    from ottla.log.partition_log import PartitionLog


class LogFlushing:
    """Invariant: the recovery point never exceeds the durable part of the log, even during a truncation.

    Owner: the log; `flush` may run in a thread, and a lock separates it from truncations on the event loop.
    """

    __slots__ = (
        "_entry_synced",
        "_lock",
        "_log",
        "last_flush_ms",
        "truncations",
    )  # one per partition

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._lock = Lock()
        self._entry_synced = False
        self.truncations = 0
        self.last_flush_ms = int(time.time() * 1000)

    def void(self) -> None:
        """Invalidate a running flush, because the log is about to be truncated."""
        with self._lock:
            self.truncations += 1

    def moved(self) -> None:
        """Sync a renamed directory, which must be found after a crash."""
        self._entry_synced = False

    def flush(self, upto: int | None) -> None:
        log = self._log
        truncations = self.truncations
        end = log.log_end_offset if upto is None else min(upto, log.log_end_offset)
        if end <= log.recovery_point:
            return
        try:
            log.epochs.write(sync=True)
        except OSError as error:
            if log.is_closed:
                return  # deleted or taken offline during the flush
            if not is_passing(error):
                log.go_offline("flushed", error)
            # No data is lost: the disk may have room at the next flush.
            raise storage_error(f"cannot write the leader epochs of {log.path}", error) from error
        began = time.monotonic()
        try:
            log.segments.sync(log.recovery_point, end)
            sync_path(os.fspath(log.path))
            if not self._entry_synced:
                sync_path(os.path.dirname(log.path))  # makes a new log's directory durable
                self._entry_synced = True
        except OSError as error:
            if log.is_closed:
                return
            log.go_offline("flushed", error)
        with self._lock:
            if truncations == self.truncations:
                log.recovery_point = max(log.recovery_point, end)
                self.last_flush_ms = int(time.time() * 1000)
        flush_times.add(int((time.monotonic() - began) * 1e6))

    def is_due(self, now_ms: int) -> bool:
        log = self._log
        waits = log.recovery_point < log.log_end_offset
        return waits and (
            log.recovery_point < log.active.base_offset or now_ms - self.last_flush_ms >= log.config.flush_ms
        )
