"""Durations of log flushes in this process, in microseconds."""

from __future__ import annotations

from threading import Lock

from ottla.monitoring.metrics.histogram import Histogram


class FlushTimes(Histogram):
    """Histogram with a lock, because several threads flush logs. Its cost is negligible beside an fsync."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def add(self, value: int, weight: int = 1) -> None:
        with self._lock:
            super().add(value, weight)


flush_times = FlushTimes()
