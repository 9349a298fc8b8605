"""A request's body on its way from the connection to the handler.

Invariant: the number of unread bytes is bounded. An HTTP/1 connection stops reading its socket when `buffered` exceeds
`HIGH_WATER`; an HTTP/2 connection opens the client's window only as far as the handler has read. Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from ottla.http.errors import HttpError

HIGH_WATER = 256 * 1024
_SLOWEST = 1000  # bytes per second, after `Limits.body_seconds`


class BodySource(Protocol):
    """The connection, as seen by a body."""

    def body_wanted(self) -> None:
        """Tell the client to continue (100-continue), because the handler waits for bytes."""

    def body_read(self, count: int, buffered: int) -> None:
        """Report that the handler has read `count` bytes and `buffered` bytes remain."""


class Body:
    __slots__ = (
        "_chunks",
        "_failure",
        "_source",
        "_waiter",
        "buffered",
        "deadline",
        "ended",
        "length",
        "received",
    )

    def __init__(self, source: BodySource | None = None, length: int | None = None) -> None:
        self._source = source
        self._chunks: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self.length = length  # as declared, or None
        self.buffered = 0
        self.received = 0
        self.ended = source is None
        self.deadline: float | None = None  # set while a reader waits for the whole body

    @property
    def empty(self) -> bool:
        return self.ended and not self.received

    # -- connection --

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        self.buffered += len(data)
        self.received += len(data)
        if self.deadline is not None:
            self.deadline += len(data) / _SLOWEST
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def fail(self, reason: Exception) -> None:
        if not self.ended and self._failure is None:
            self._failure = reason
            self._wake()

    def expire(self, now: float) -> None:
        if self.deadline is not None and now > self.deadline:
            self.fail(HttpError(408, 408, "The body of the request did not arrive in time."))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- handler --

    async def chunk(self) -> bytes:
        """Return the bytes received since the last call; empty at the end."""
        while not self._chunks:
            if self._failure is not None:
                raise self._failure
            if self.ended:
                return b""
            if self._source is not None:
                self._source.body_wanted()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = b"".join(self._chunks) if len(self._chunks) > 1 else self._chunks[0]
        self._chunks.clear()
        self.buffered = 0
        if self._source is not None:
            self._source.body_read(len(data), 0)
        return data
