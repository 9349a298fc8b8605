"""Unsent responses of a connection: bytes in memory, and regions of segment files."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.network.request_times import ALONE_BYTES, SHARED_BYTES, Turns
from ottla.broker.network.wire import MORE_FOLLOWS, Buffer, Wire
from ottla.log.files.descriptors import FileRegion, is_in_memory, read_now, read_through

if TYPE_CHECKING:
    from ottla.broker.network.connection import Connection
    from ottla.broker.network.request_times import RequestTiming

# Source of response bytes, in wire order.
Part: TypeAlias = bytes | memoryview | FileRegion

# Below this size, a read and a joint write are cheaper than a separate sendfile.
_SENDFILE_FROM = 32 * 1024
# Maximum bytes of a joint write; other connections wait for it.
_PIECE_BYTES = SHARED_BYTES


class SendQueue:
    """Invariant: `size` is the total of all parts, which are sent in order.

    At most one condition blocks the queue: the socket is full (`_is_writing`), or a thread reads a region that is not
    in memory (`_is_warming`). Owner: the event loop.
    """

    __slots__ = (
        "_connection",
        "_fd",
        "_is_warm",
        "_is_warming",
        "_is_writing",
        "_loop",
        "_timed",
        "_turns",
        "_wire",
        "parts",
        "size",
    )

    def __init__(self, connection: Connection, wire: Wire, turns: Turns) -> None:
        self._connection = connection
        self._wire = wire
        self._fd = wire.fd
        self._turns = turns
        self.parts: deque[Part] = deque()
        self.size = 0
        self._is_writing = False
        self._is_warming = False
        self._is_warm = False
        self._timed: list[RequestTiming] = []  # timed responses among the parts

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        if self._is_writing:
            self._loop.remove_writer(self._fd)
        self.parts.clear()
        self._timed.clear()

    def put(self, parts: list[Part], size: int, timing: RequestTiming | None = None) -> None:
        """Queue one response of `size` bytes for the next `send`."""
        self.parts.extend(parts)
        self.size += size
        if timing is not None:
            timing.to_send = self.size
            self._timed.append(timing)

    def send(self) -> None:
        """Send as much as possible now; the rest follows automatically."""
        if self._is_writing or self._is_warming or not self.parts or self._connection.closed:
            return
        try:
            drained = self._send_timed() if self._timed else self._send_some()
        except (BlockingIOError, InterruptedError):
            drained = False
        except OSError as error:
            self._fail(error)
            return
        if not drained and not self._is_warming:
            self._is_writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _on_writable(self) -> None:
        connection = self._connection
        connection.active = True
        self._turns.note(connection)
        try:
            drained = self._send_timed() if self._timed else self._send_some()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(error)
            return
        if drained or self._is_warming:
            self._is_writing = False
            self._loop.remove_writer(self._fd)
        connection.on_sent()

    def _fail(self, error: OSError) -> None:
        """Close the connection: the client is gone, or the disk with the response has failed."""
        head = self.parts[0] if self.parts else None
        if error.errno == errno.EIO and isinstance(head, FileRegion) and head.file is not None:
            self._connection.on_read_failed(head.file.path, error)
        self._connection.close()

    def _send_timed(self) -> bool:
        """Like `_send_some`, and record when timed responses start and finish sending."""
        began, before = monotonic_ns(), self.size
        for timing in self._timed:
            timing.sending = timing.sending or began
        try:
            return self._send_some()
        finally:
            sent = before - self.size
            for timing in self._timed:
                timing.to_send -= sent
                if timing.to_send <= 0:
                    timing.sent()
            self._timed = [timing for timing in self._timed if timing.to_send > 0]

    def _send_some(self) -> bool:
        """Send at most a turn's worth of bytes. Return True if the queue is empty."""
        parts = self.parts
        budget, is_extended = SHARED_BYTES, False
        send_file = self._wire.send_file
        while parts:
            if budget <= 0:
                if is_extended or not self._turns.is_alone(self._connection):
                    return False
                budget, is_extended = ALONE_BYTES - SHARED_BYTES, True
            head = parts[0]
            if send_file is not None and isinstance(head, FileRegion) and head.size >= _SENDFILE_FROM:
                size = min(head.size, budget)
                if not self._is_warm and not is_in_memory(head.fd, head.position, size):
                    self._warm(head, size)
                    return False
                self._is_warm = False
                sent = send_file(head.fd, head.position, size)
                if not sent:
                    raise OSError("the segment ended early")
                if sent == head.size:
                    parts.popleft()
                else:
                    parts[0] = FileRegion(head.file, head.position + sent, head.size - sent)
                budget -= sent
                self.size -= sent
                continue
            batch, more = self._gather()
            if not batch:
                assert isinstance(head, FileRegion)
                self._warm(head, min(head.size, _PIECE_BYTES))
                return False
            try:
                sent = self._wire.send(batch, MORE_FOLLOWS if more else 0)
            except (BlockingIOError, InterruptedError):
                sent = 0
            budget -= sent
            self.size -= sent
            if sent < len(batch):
                parts.appendleft(memoryview(batch)[sent:])
                return False  # the socket is full
        return True

    def _gather(self) -> tuple[Buffer, bool]:
        """Dequeue one piece to write, up to the next region for sendfile. Return it, and whether more follows.

        A piece is bounded, because joining it blocks the loop. Return nothing if the first part is a region not in
        memory.
        """
        parts = self.parts
        pieces: list[Buffer] = []
        room = _PIECE_BYTES
        has_sendfile = self._wire.send_file is not None
        while parts and room:
            head = parts[0]
            if isinstance(head, FileRegion):
                if has_sendfile and head.size >= _SENDFILE_FROM:
                    break
                size = min(head.size, room)
                data = read_now(head.fd, head.position, size)
                if data is None:
                    if pieces or not self._is_warm:
                        break
                    data = FileRegion(head.file, head.position, size).read()
                self._is_warm = False
                pieces.append(data)
                if size < head.size:
                    parts[0] = FileRegion(head.file, head.position + size, head.size - size)
                    break
            else:
                size = len(head)
                if size > room:
                    view = memoryview(head)
                    pieces.append(view[:room])
                    parts[0] = view[room:]
                    break
                pieces.append(head)
            room -= size
            parts.popleft()
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), bool(parts)

    def _warm(self, region: FileRegion, size: int) -> None:
        self._is_warming = True
        warmed = self._loop.run_in_executor(None, read_through, region.fd, region.position, size)
        warmed.add_done_callback(self._on_warm)

    def _on_warm(self, read: asyncio.Future[None]) -> None:
        if not read.cancelled():
            read.exception()  # sending reports read errors
        self._is_warming = False
        self._is_warm = True  # once is enough, even if memory pressure evicts the pages again
        self.send()
        self._connection.on_sent()
