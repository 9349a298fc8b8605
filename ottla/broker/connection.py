"""One client's socket: frames in, responses out, in order.

Requests of a connection are handled one after another, as Kafka does: while one waits (a fetch for data, a join for
its group), what follows stays unread. Several requests that arrive together are answered with one write.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct as Packer
from typing import TYPE_CHECKING, Any

from ottla.broker.page_cache import is_in_memory, read_through
from ottla.log.file_region import FileRegion

if TYPE_CHECKING:
    from ottla.broker.dispatch import Dispatcher

logger = logging.getLogger(__name__)

_LENGTH = Packer(">i").unpack_from
_NOTHING = memoryview(b"")

RECEIVE_BYTES = 256 * 1024
# Received while a request waits; beyond it the socket is left unread and the client's own buffers fill.
_READ_AHEAD = 64 * 1024
# One turn of one connection: then others have theirs.
_BYTES_PER_TURN = 128 * 1024
# Below this a read and one joint write are cheaper than a sendfile of its own.
_SENDFILE_FROM = 32 * 1024


class Connection:
    """A socket and the bytes in flight on it. Owned by the event loop; never used after `close`."""

    __slots__ = (
        "_dispatcher",
        "_filled",
        "_loop",
        "_max_request_bytes",
        "_on_close",
        "_out",
        "_paused",
        "_pending",
        "_socket",
        "_stash",
        "_warmed",
        "_warming",
        "_writing",
        "client_host",
        "client_id",
        "client_id_raw",
        "closed",
        "closing",
        "fd",
        "listener",
        "waiting",
    )

    def __init__(
        self,
        sock: socket.socket,
        client_host: str,
        listener: str,
        dispatcher: Dispatcher,
        max_request_bytes: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._socket = sock
        self.fd = sock.fileno()
        self.client_host = client_host
        self.listener = listener
        self.client_id: str | None = None
        self.client_id_raw = b""
        self.closed = False
        self.closing: dict[object, Callable[[], None]] = {}  # what to do when it goes, by whom it concerns
        self.waiting: Any = None  # the dispatcher's note of the request that waits
        self._dispatcher = dispatcher
        self._max_request_bytes = max_request_bytes
        self._on_close = on_close
        self._stash = _NOTHING  # a frame that is not complete, or what came while a request waits
        self._filled = 0
        self._pending: asyncio.Future[Any] | None = None
        self._out: deque[Any] = deque()  # bytes and file regions still to be sent
        self._writing = False
        self._warming = False
        self._warmed = False
        self._paused = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.add_reader(self.fd, self._on_readable)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self.fd)
        if self._writing:
            self._loop.remove_writer(self.fd)
        self._socket.close()
        self._out.clear()
        self._stash = _NOTHING
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        for callback in list(self.closing.values()):
            callback()
        self._on_close(self)

    # Receiving

    def _on_readable(self) -> None:
        try:
            if self._filled or self._pending is not None:
                self._receive_into_stash()
            else:
                view = self._dispatcher.receive_view
                received = self._socket.recv_into(view)
                if not received:
                    self.close()
                    return
                self._take_frames(view, received)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()

    def _receive_into_stash(self) -> None:
        if self._filled == len(self._stash):
            if self._pending is not None and self._filled >= _READ_AHEAD:
                self._pause()
                return
            self._keep(self._stash, 0, self._filled)
        received = self._socket.recv_into(self._stash[self._filled :])
        if not received:
            self.close()
            return
        self._filled += received
        if self._pending is None:
            self._take_stashed_frames()

    def _take_stashed_frames(self) -> None:
        stash, filled = self._stash, self._filled
        if filled < 4 or filled < 4 + _LENGTH(stash, 0)[0] <= len(stash):
            return
        self._stash, self._filled = _NOTHING, 0
        self._take_frames(stash, filled)
        self._dispatcher.frames.give_back(stash)

    def _take_frames(self, view: memoryview, end: int) -> None:
        """Handle the complete frames in `view[:end]` and stash what is left."""
        position = 0
        handle = self._dispatcher.handle
        while end - position >= 4:
            size = _LENGTH(view, position)[0]
            if not 0 <= size <= self._max_request_bytes:
                self._send()
                self._refuse_size(size)
                return
            stop = position + 4 + size
            if stop > end:
                break
            pending = handle(self, view[position + 4 : stop])
            position = stop
            if self.closed:
                return
            if pending is not None:
                self._pending = pending
                pending.add_done_callback(self._on_answered)
                break
        if position < end:
            self._keep(view, position, end)
        self._send()

    def _keep(self, view: memoryview, position: int, end: int) -> None:
        """Stash `view[position:end]`, with room for the rest of the frame that begins there."""
        left = end - position
        room = _READ_AHEAD if self._pending is not None else 4
        if left >= 4:
            room = max(room, 4 + _LENGTH(view, position)[0])
        if left >= room:
            room = left + _READ_AHEAD
        stash = self._dispatcher.frames.take(room)
        stash[:left] = view[position:end]
        self._stash, self._filled = stash, left

    def _refuse_size(self, size: int) -> None:
        logger.warning(
            "Closing the connection from %s: a request of %d bytes is outside 0..%d (socket.request.max.bytes)",
            self.client_host,
            size,
            self._max_request_bytes,
        )
        self.close()

    def _pause(self) -> None:
        self._paused = True
        self._loop.remove_reader(self.fd)

    def _on_answered(self, pending: asyncio.Future[Any]) -> None:
        """The waiting request has its response: go on with what came meanwhile."""
        if self.closed:
            return
        self._pending = None
        self._dispatcher.finish(self, pending)
        if self.closed:
            return
        if self._paused:
            self._paused = False
            self._loop.add_reader(self.fd, self._on_readable)
        if self._filled:
            self._take_stashed_frames()
        self._send()

    # Sending: `_out` drains in order; at most one of `_writing` (the socket is full) and `_warming` (a region is
    # not in memory and is being read by a thread) holds it up.

    def write(self, parts: list[Any]) -> None:
        """Queue one response; `_send` follows at the end of the turn."""
        self._out.extend(parts)

    def _send(self) -> None:
        if self._writing or self._warming or not self._out or self.closed:
            return
        try:
            drained = self._send_some()
        except (BlockingIOError, InterruptedError):
            drained = False
        except OSError:
            self.close()
            return
        if not drained and not self._warming:
            self._writing = True
            self._loop.add_writer(self.fd, self._on_writable)

    def _on_writable(self) -> None:
        try:
            drained = self._send_some()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if drained or self._warming:
            self._writing = False
            self._loop.remove_writer(self.fd)

    def _send_some(self) -> bool:
        """Send what the socket takes, at most a turn's worth; tells whether everything is out."""
        out = self._out
        budget = _BYTES_PER_TURN
        while out:
            if budget <= 0:
                return False
            head = out[0]
            if isinstance(head, FileRegion) and head.size >= _SENDFILE_FROM:
                size = min(head.size, budget)
                if not self._warmed and not is_in_memory(head.fd, head.position, size):
                    self._warm(head, size)
                    return False
                self._warmed = False
                sent = os.sendfile(self.fd, head.fd, head.position, size)
                if not sent:
                    raise OSError("the segment ended early")
                if sent == head.size:
                    out.popleft()
                else:
                    out[0] = FileRegion(head.file, head.position + sent, head.size - sent)
                budget -= sent
                continue
            batch, more = self._gather()
            sent = self._socket.send(batch, socket.MSG_MORE if more else 0)
            budget -= sent
            if sent < len(batch):
                out.appendleft(memoryview(batch)[sent:])
        return True

    def _gather(self) -> tuple[Any, bool]:
        """Take everything up to the next sendfile off the queue as one piece; and whether a sendfile follows."""
        out = self._out
        pieces: list[Any] = []
        while out:
            head = out[0]
            if isinstance(head, FileRegion):
                if head.size >= _SENDFILE_FROM:
                    break
                pieces.append(head.read())
            else:
                pieces.append(head)
            out.popleft()
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), bool(out)

    def _warm(self, region: FileRegion, size: int) -> None:
        """Let a thread wait for the disk, and go on when it has."""
        self._warming = True
        warmed = self._loop.run_in_executor(None, read_through, region.fd, region.position, size)
        warmed.add_done_callback(self._on_warm)

    def _on_warm(self, _: object) -> None:
        self._warming = False
        self._warmed = True  # once is enough, even if memory is so short that it is gone again
        self._send()
