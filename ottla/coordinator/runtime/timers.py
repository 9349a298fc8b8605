"""Thousands of deadlines on one heap and one event loop timer."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Hashable
from typing import Protocol

log = logging.getLogger(__name__)

# Tolerance in seconds: event loops may call slightly early, and floats round.
_EARLY = 0.0005


class Cancellable(Protocol):
    def cancel(self) -> None: ...


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _call_later(delay: float, callback: Callable[[], None]) -> Cancellable:
    return asyncio.get_running_loop().call_later(delay, callback)


class _Timer:
    __slots__ = ("callback", "deadline", "entry")

    def __init__(self, deadline: float, callback: Callable[[], None], entry: int) -> None:
        self.deadline = deadline
        self.callback = callback
        # Number of the valid heap entry; other entries with the same key are stale.
        self.entry = entry


class Timers:
    """Invariant: every timer has exactly one valid heap entry, no later than its deadline.

    Extending a deadline, as every heartbeat does, only updates a dict. The heap entry is rescheduled when it comes up.
    Owner: the event loop.
    """

    def __init__(
        self,
        clock: Callable[[], float] = _loop_time,
        call_later: Callable[[float, Callable[[], None]], Cancellable] = _call_later,
    ) -> None:
        """`clock` returns monotonic seconds; `call_later(seconds, callback)` works like the event loop's."""
        self._clock = clock
        self._call_later = call_later
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._entries = 0
        self._armed: Cancellable | None = None
        self._armed_for = float("inf")

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: Hashable, delay_ms: int, callback: Callable[[], None]) -> None:
        deadline = self._clock() + delay_ms / 1000
        timer = self._timers.get(key)
        if timer is not None and timer.deadline <= deadline:
            timer.deadline = deadline
            timer.callback = callback
            return
        self._timers[key] = _Timer(deadline, callback, self._push(deadline, key))
        if deadline < self._armed_for:
            self._arm(deadline)

    def cancel(self, key: Hashable) -> None:
        if self._timers.pop(key, None) and len(self._heap) > 64 + 4 * len(self._timers):
            self._heap = [(timer.deadline, timer.entry, key) for key, timer in self._timers.items()]
            heapq.heapify(self._heap)

    def close(self) -> None:
        self._timers.clear()
        self._heap.clear()
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._armed_for = float("inf")

    def run_due(self) -> None:
        self._armed = None
        self._armed_for = float("inf")
        now = self._clock() + _EARLY
        while self._heap and self._heap[0][0] <= now:
            _, entry, key = heapq.heappop(self._heap)
            timer = self._timers.get(key)
            if timer is None or timer.entry != entry:
                continue
            if timer.deadline > now:
                timer.entry = self._push(timer.deadline, key)
                continue
            del self._timers[key]
            try:
                timer.callback()
            except Exception:
                log.exception("the timer %s failed", key)
        if self._heap and self._heap[0][0] < self._armed_for:
            self._arm(self._heap[0][0])

    def _push(self, deadline: float, key: Hashable) -> int:
        self._entries += 1
        heapq.heappush(self._heap, (deadline, self._entries, key))
        return self._entries

    def _arm(self, deadline: float) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed_for = deadline
        self._armed = self._call_later(max(deadline - self._clock(), 0.0), self.run_due)
