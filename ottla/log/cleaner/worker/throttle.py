"""Limit the cleaner's disk traffic to log.cleaner.io.max.bytes.per.second."""

from __future__ import annotations

import time
from collections.abc import Callable


class Throttle:
    """Invariant: the average over any longer period stays below `rate` bytes per second.

    `pause` waits, and may end the job by raising. Owner: one job.
    """

    def __init__(
        self,
        rate: float,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._pause = pause
        self._clock = clock
        self._free_at = clock()

    def took(self, count: int) -> None:
        """Account for bytes read or written, and wait if they exceed the rate."""
        now = self._clock()
        self._free_at = max(self._free_at, now) + count / self._rate
        self._pause(max(0.0, self._free_at - now))
