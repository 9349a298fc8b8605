"""The purgatory: operations that wait for partitions (Kafka's DelayedOperation).

A request that cannot be answered yet becomes a `DelayedOperation`. It watches keys of partitions: the log end offset,
the high watermark, the low watermark. Progress of a key calls `try_complete`, the loss of the partition calls `fail`.
An operation completes once; if its deadline comes first, it expires. Requests that need not wait never get here.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter, deque
from functools import cached_property
from typing import Any, Protocol

from ottla.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

# Resolution of deadlines. One timer serves all operations of a tick, as thousands of them come and go each second.
_TICK_SECONDS = 0.01


class Watcher(Protocol):
    """Watches keys of partitions; called in the event loop turn of the event."""

    def try_complete(self, key: Any, progress: int) -> None:
        """Handle progress of a key: newly available bytes, or the offset reached."""

    def fail(self, key: Any, error: ErrorCode) -> None:
        """Handle a key that makes no further progress, because the partition has left this broker."""


class DelayedOperation:
    """Invariant: completes at most once, by progress, expiration or cancellation. Owner: the event loop."""

    __slots__ = ("_is_scheduled", "_purgatory", "_tick", "is_complete")

    kind = ""  # Kafka's name, for metrics

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._tick: int | None = None
        self._is_scheduled = False
        self.is_complete = False

    def try_complete(self, key: Any, progress: int) -> None:
        self.complete_soon()

    def fail(self, key: Any, error: ErrorCode) -> None:
        self.complete_soon()

    def complete_soon(self) -> None:
        """Complete after this turn of the loop: the request that caused the progress is answered first."""
        if not self._is_scheduled and not self.is_complete:
            self._is_scheduled = True
            self._purgatory.loop.call_soon(self._complete_now)

    def _complete_now(self) -> None:
        self._is_scheduled = False
        if not self.is_complete:
            self.complete()

    def complete(self) -> None:
        """Finish the operation and answer its request."""
        self.cancel()

    def expire(self) -> None:
        self.complete()

    def cancel(self) -> None:
        """Finish the operation without an answer, for example after a disconnect."""
        self.is_complete = True
        self._purgatory.remove(self)


class Purgatory:
    """The waiting operations of a broker and their deadlines. Owner: the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[int, dict[DelayedOperation, None]] = {}  # by tick
        self._ticks: list[int] = []  # a heap
        self._timer: asyncio.TimerHandle | None = None

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def add(self, operation: DelayedOperation, deadline: float) -> None:
        """Expire the operation at its deadline (loop time) unless it completes earlier."""
        tick = operation._tick = int(deadline / _TICK_SECONDS) + 1
        waiting = self._waiting.get(tick)
        if waiting is None:
            waiting = self._waiting[tick] = {}
            heapq.heappush(self._ticks, tick)
            if self._ticks[0] == tick:
                self._set_timer()
        waiting[operation] = None

    def remove(self, operation: DelayedOperation) -> None:
        if operation._tick is not None:
            self._waiting[operation._tick].pop(operation, None)
            operation._tick = None

    def sizes(self) -> Counter[str]:
        """Return the number of waiting operations by kind."""
        return Counter(operation.kind for waiting in self._waiting.values() for operation in waiting)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(self._ticks[0] * _TICK_SECONDS, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self.loop.time() + 0.001  # timers have a resolution of a millisecond
        while self._ticks and self._ticks[0] * _TICK_SECONDS <= now:
            late = self._waiting.pop(heapq.heappop(self._ticks))
            for operation in late:
                operation._tick = None
            for operation in late:
                if not operation.is_complete:
                    try:
                        operation.expire()
                    except Exception:  # must not keep the others waiting
                        logger.exception("A delayed %s cannot expire", operation.kind)
        if self._ticks and self._timer is None:
            self._set_timer()


class OffsetWatchers:
    """Operations that wait for one key of a partition to reach an offset.

    Invariant: they are in the order of their offsets. Owner: the event loop.
    """

    __slots__ = ("_abandoned", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Watcher, Any]] = deque()
        self._abandoned = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, watcher: Watcher, key: Any) -> None:
        """Call `watcher` once everything below `offset` is reached."""
        waiting = self._waiting
        if not waiting or waiting[-1][0] <= offset:
            waiting.append((offset, watcher, key))
            return
        # A producer has repeated an earlier batch.
        at = next(i for i, entry in enumerate(waiting) if entry[0] > offset)
        waiting.insert(at, (offset, watcher, key))

    def try_complete(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            _, watcher, key = waiting.popleft()
            watcher.try_complete(key, offset)

    def fail(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, watcher, key in waiting:
            watcher.fail(key, error)

    def abandon(self) -> None:
        """Note that an operation has given up. The entries of such operations are dropped together."""
        self._abandoned += 1
        if 2 * self._abandoned >= len(self._waiting):
            self._abandoned = 0
            self._waiting = deque(
                entry for entry in self._waiting
                if not (isinstance(entry[1], DelayedOperation) and entry[1].is_complete)
            )  # fmt: skip
