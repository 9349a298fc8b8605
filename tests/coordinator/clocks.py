"""A manual clock for tests, for both `Timers` and timestamps."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class FakeClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms
        self._calls: list[tuple[float, int, Callable[[], None], FakeHandle]] = []
        self._numbers = count()

    def milliseconds(self) -> int:
        return self.now_ms

    def seconds(self) -> float:
        return self.now_ms / 1000

    def call_later(self, delay: float, callback: Callable[[], None]) -> FakeHandle:
        handle = FakeHandle()
        heapq.heappush(self._calls, (self.seconds() + delay, next(self._numbers), callback, handle))
        return handle

    @property
    def armed(self) -> int:
        return sum(not handle.cancelled for *_, handle in self._calls)

    def pass_ms(self, milliseconds: int) -> None:
        end = self.now_ms + milliseconds
        while self._calls and self._calls[0][0] <= end / 1000:
            when, _, callback, handle = heapq.heappop(self._calls)
            if not handle.cancelled:
                self.now_ms = max(self.now_ms, round(when * 1000))
                callback()
        self.now_ms = end

    async def run(self, milliseconds: int = 0) -> None:
        self.pass_ms(milliseconds)
        for _ in range(5):
            await asyncio.sleep(0)


class FakeHandle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
