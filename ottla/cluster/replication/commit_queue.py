"""Requests that wait for an offset to be committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Any, Protocol

from ottla.protocol.errors import ErrorCode, KafkaError


class CommitWaiter(Protocol):
    def committed(self, token: Any, error: ErrorCode) -> None:
        """Report the outcome for `token`: committed, or never to be. Called once, in the event loop turn of the
        outcome.
        """
        ...


class CommitQueue:
    """Invariant: waiters are in the order of the offsets they wait for. Owner: the event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, CommitWaiter, Any]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, offset: int, waiter: CommitWaiter, token: Any) -> None:
        """Call `waiter` once all records below `offset` are committed."""
        waiting = self._waiting
        if not waiting or waiting[-1][0] <= offset:
            waiting.append((offset, waiter, token))
            return
        # A producer has repeated an earlier batch.
        at = next(i for i, entry in enumerate(waiting) if entry[0] > offset)
        waiting.insert(at, (offset, waiter, token))

    def settle(self, high_watermark: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _, waiter, token = waiting.popleft()
            waiter.committed(token, ErrorCode.NONE)

    def fail(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, waiter, token in waiting:
            waiter.committed(token, error)

    def discard(self, waiters: Collection[CommitWaiter]) -> None:
        """Drop waiters that have given up."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] not in waiters)


class CommitFuture:
    """An awaitable waiter."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def committed(self, token: Any, error: ErrorCode) -> None:
        if self.future.done():
            return
        if error:
            self.future.set_exception(KafkaError(error))
            self.future.exception()  # retrieve it, in case nothing awaits the future
        else:
            self.future.set_result(None)
