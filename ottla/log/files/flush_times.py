"""How long it takes to flush a log to disk: of all logs of this process, in microseconds."""

from __future__ import annotations

from threading import Lock

from ottla.monitoring.metrics.histogram import Histogram


class FlushTimes(Histogram):
    """Logs are flushed by several threads, so adding takes a lock: it is nothing beside an fsync."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def add(self, value: int, weight: int = 1) -> None:
        with self._lock:
            super().add(value, weight)


flush_times = FlushTimes()
