"""Deadlines by the thousand on one heap and one timer of the event loop."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Protocol


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Timers:
    """Invariant: every deadline has an entry on the heap that is not later than it.

    Moving a deadline back, as every heartbeat does, touches a dict only; the heap entry finds out when
    it comes up. Owned by the event loop.
    """

    def __init__(self, clock: Callable[[], float], call_later: Callable[..., Cancellable]) -> None:
        """`clock` in seconds, monotonic; `call_later(seconds, callback)` as an event loop has it."""
        self._clock = clock
        self._call_later = call_later
        self._deadlines: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._sequence = 0
        self._armed: Cancellable | None = None
        self._armed_for = float("inf")

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, key: Hashable, delay_ms: int, callback: Callable[[], None]) -> None:
        deadline = self._clock() + delay_ms / 1000
        previous = self._deadlines.get(key)
        self._deadlines[key] = (deadline, callback)
        if previous is None or deadline < previous[0]:
            self._push(deadline, key)
            if deadline < self._armed_for:
                self._arm(deadline)

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._deadlines):
            self._heap = [(entry[0], i, key) for i, (key, entry) in enumerate(self._deadlines.items())]
            self._sequence = len(self._heap)
            heapq.heapify(self._heap)

    def close(self) -> None:
        self._deadlines.clear()
        self._heap.clear()
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._armed_for = float("inf")

    def run_due(self) -> None:
        """Call back everything that is due, then wait for the next deadline."""
        self._armed = None
        self._armed_for = float("inf")
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            _, _, key = heapq.heappop(self._heap)
            entry = self._deadlines.get(key)
            if entry is None:
                continue
            deadline, callback = entry
            if deadline > now:
                self._push(deadline, key)
            else:
                del self._deadlines[key]
                callback()
        if self._heap and self._heap[0][0] < self._armed_for:
            self._arm(self._heap[0][0])

    def _push(self, deadline: float, key: Hashable) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (deadline, self._sequence, key))

    def _arm(self, deadline: float) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed_for = deadline
        self._armed = self._call_later(max(deadline - self._clock(), 0.0), self.run_due)
