"""State of one HTTP/2 stream, and of incoming frames. Without sockets."""

from __future__ import annotations

import asyncio
from typing import Protocol

from ottla.http.body import Body
from ottla.http.messages import Request

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEADER, _MAX_FRAME = 9, 16384


class Windows(Protocol):
    """The connection, as seen by a stream."""

    def acknowledge(self, number: int, count: int) -> None:
        """Let the client send more, because the handler has read `count` bytes."""


class FrameLengths:
    """Checks frame lengths early: h2 buffers a whole frame, up to 16 MB, before it rejects one as too long."""

    __slots__ = ("_begun", "_skip")

    def __init__(self) -> None:
        self._skip = len(PREFACE)
        self._begun = b""

    def too_long(self, data: bytes) -> bool:
        position = 0
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
                position += step
                continue
            missing = _FRAME_HEADER - len(self._begun)
            self._begun += data[position : position + missing]
            position += missing
            if len(self._begun) == _FRAME_HEADER:
                self._skip = int.from_bytes(self._begun[:3])
                self._begun = b""
                if self._skip > _MAX_FRAME:
                    return True
        return False


class Stream:
    __slots__ = (
        "answered_at",
        "blocked_since",
        "body",
        "connection",
        "number",
        "request",
        "task",
        "window",
    )

    def __init__(self, connection: Windows, number: int, body: Body | None = None) -> None:
        self.connection = connection
        self.number = number
        self.body = body or Body(self)
        self.request: Request | None = None
        self.task: asyncio.Task[None] | None = None
        self.window: asyncio.Future[None] | None = None
        self.blocked_since: float | None = None
        self.answered_at: float | None = None  # further bytes from the client are discarded

    def body_wanted(self) -> None:
        pass

    def body_read(self, count: int, buffered: int) -> None:
        self.connection.acknowledge(self.number, count)

    def wake(self) -> None:
        if self.window is not None and not self.window.done():
            self.window.set_result(None)
