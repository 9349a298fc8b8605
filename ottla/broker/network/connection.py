"""One client connection: frames in, responses out, in order.

Like Kafka, a connection handles its requests one after another. While a request waits (a fetch for data, a join for its
group), later requests stay unread. The same applies while a quota throttles the client or while it does not read its
responses. Requests that arrive together are answered with one write.

A `PendingResponse` need not block its connection. A produce request that waits only for other replicas lets later
requests proceed; their responses wait in line.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from struct import Struct as Packer
from typing import TYPE_CHECKING

from ottla.broker.network.request_context import PendingResponse
from ottla.broker.network.send_queue import Part, SendQueue
from ottla.broker.network.wire import Wire
from ottla.broker.telemetry import ClientFacts
from ottla.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import Dispatcher
    from ottla.broker.network.request_times import RequestTiming
    from ottla.broker.network.sasl_login import SaslLogin
    from ottla.broker.network.slow_lane import SlowLane

logger = logging.getLogger(__name__)

_LENGTH = Packer(">i").unpack_from
_NOTHING = memoryview(b"")
# First bytes of a TLS handshake: record type and versions 1.0 to 1.2.
_TLS_HANDSHAKES = (0x160301, 0x160302, 0x160303)

RECEIVE_BYTES = 256 * 1024
# Bytes to receive while a request waits. Beyond this the socket stays unread and the client's own buffers fill.
_READ_AHEAD = 64 * 1024
# Limit on unread response bytes, beyond which no further request of the client is handled.
_MAX_QUEUED = 4 * 1024 * 1024
# Pause for a wire that must send before it can receive.
_ROOM_SECONDS = 0.05
# Limit on pending and subsequent responses, beyond which no further request of the client is handled.
_MAX_PENDING = 2000


class Connection:
    """Requests of one wire, and the order of their responses.

    Owner: the event loop; never used after `close`.
    """

    __slots__ = (
        "_blocked_by",
        "_busy",
        "_completing",
        "_dispatcher",
        "_ending",
        "_fd",
        "_filled",
        "_in_use",
        "_loop",
        "_muted",
        "_on_close",
        "_paused",
        "_pending",
        "_responses",
        "_stash",
        "_turns",
        "_wire",
        "active",
        "client_host",
        "client_id",
        "client_id_raw",
        "client_software",
        "closed",
        "closing",
        "handle_frame",
        "idle_since",
        "listener",
        "login",
        "max_request_bytes",
        "principal",
        "rights",
    )

    def __init__(
        self,
        wire: Wire,
        client_host: str,
        listener: str,
        dispatcher: Dispatcher,
        max_request_bytes: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._wire = wire
        self._fd = wire.fd
        self.client_host = client_host
        self.listener = listener
        self.principal = ANONYMOUS
        self.rights = dispatcher.rights(self)  # None: no restrictions
        self.login: SaslLogin | None = None  # on listeners with SASL
        self.handle_frame: Callable[[Connection, memoryview], None] = dispatcher.handle
        self.client_id: str | None = None
        self.client_id_raw = b""
        self.client_software = ("unknown", "unknown")  # name and version reported by the client
        self.closed = False
        self.closing: dict[object, Callable[[], None]] = {}  # callbacks for closing, by owner
        self._dispatcher = dispatcher
        self._turns = dispatcher.turns
        self._responses = SendQueue(self, wire, dispatcher.turns)
        self.max_request_bytes: int = max_request_bytes
        self._on_close = on_close
        self._stash = _NOTHING  # an incomplete frame, or bytes received while a request waits
        self._filled = 0
        self._in_use: memoryview | None = None  # the stash that current frames are read from
        self._blocked_by: PendingResponse | None = None
        self._muted: asyncio.TimerHandle | None = None
        # True while no request is handled: a response blocks, a quota throttles, or the client does not read.
        self._busy = False
        # Pending responses, and later responses queued behind them.
        self._pending: deque[PendingResponse | tuple[list[Part], int, RequestTiming | None]] = deque()
        self._completing = False
        self._ending = False  # handle no more requests and close after the last response
        self.active = True  # since the last check for idle connections
        self.idle_since = 0.0
        self._paused = False

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._responses.open(loop)
        loop.add_reader(self._fd, self._on_readable)
        if self._wire.has_received:  # together with the end of a handshake
            loop.call_soon(self._receive_more)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._fd)
        self._responses.close()
        self._wire.close()
        self._stash = _NOTHING
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        pending, self._pending = self._pending, deque()
        for entry in pending:
            if isinstance(entry, PendingResponse) and not entry.is_complete:
                entry.abandon()
        for callback in list(self.closing.values()):
            callback()
        self._on_close(self)

    @property
    def is_served(self) -> bool:
        """Return True if the broker, not the client, keeps the connection silent."""
        return self._muted is not None or bool(self._pending)

    @property
    def lane(self) -> SlowLane:
        return self._dispatcher.lane

    def facts(self) -> ClientFacts:
        return ClientFacts(
            self.client_id or "", *self.client_software, self.client_host, str(self._wire.peer_port)
        )

    # Receiving

    def _on_readable(self) -> None:
        self.active = True
        self._turns.note(self)
        try:
            if self._filled or self._busy:
                self._receive_into_stash()
            else:
                view = self._dispatcher.receive_view
                received = self._wire.receive_into(view)
                if not received:
                    self.close()
                    return
                self._take_frames(view, received)
            if self._wire.has_received and not (self.closed or self._paused):
                self._loop.call_soon(self._receive_more)
        except (BlockingIOError, InterruptedError):
            if self._wire.wants_room:
                self._pause()
                self._loop.call_later(_ROOM_SECONDS, self._resume)
        except OSError:
            self.close()

    def _receive_more(self) -> None:
        if not (self.closed or self._paused):
            self._on_readable()

    def _receive_into_stash(self) -> None:
        if self._filled == len(self._stash):
            if self._busy and self._filled >= _READ_AHEAD:
                self._pause()
                return
            self._keep(self._stash, 0, self._filled)
        received = self._wire.receive_into(self._stash[self._filled :])
        if not received:
            self.close()
            return
        self._filled += received
        if not self._busy:
            self._take_stashed_frames()

    def _take_stashed_frames(self) -> None:
        stash, filled = self._stash, self._filled
        if filled < 4 or filled < 4 + _LENGTH(stash, 0)[0] <= len(stash):
            return
        self._stash, self._filled = _NOTHING, 0
        self._in_use = stash
        self._take_frames(stash, filled)
        if self._in_use is not None:
            self._in_use = None
            self._dispatcher.frames.give_back(stash)

    def keep_frame(self, frame: memoryview) -> tuple[memoryview, memoryview | None]:
        """Return the current frame in memory that outlives this turn, and the buffer to release after use."""
        stash, self._in_use = self._in_use, None
        return (memoryview(bytes(frame)), None) if stash is None else (frame, stash)

    def _take_frames(self, view: memoryview, end: int) -> None:
        """Handle the complete frames in `view[:end]` and stash the rest."""
        position = 0
        handle = self.handle_frame
        while end - position >= 4:
            size = _LENGTH(view, position)[0]
            if not 0 <= size <= self.max_request_bytes:
                self._responses.send()
                self._refuse_size(size)
                return
            stop = position + 4 + size
            if stop > end:
                break
            handle(self, view[position + 4 : stop])
            position = stop
            if self.closed:
                return
            if self._responses.size > _MAX_QUEUED:
                self._responses.send()
                if self.closed:
                    return
                self._busy = self._busy or self._responses.size > _MAX_QUEUED
            if len(self._pending) >= _MAX_PENDING:
                self._busy = True
            if self._busy:
                break
        if position < end:
            self._keep(view, position, end)
        self._responses.send()

    def _keep(self, view: memoryview, position: int, end: int) -> None:
        """Stash `view[position:end]`, with room for the rest of the frame that starts there."""
        left = end - position
        room = _READ_AHEAD if self._busy else 4
        if left >= 4:
            room = max(room, 4 + _LENGTH(view, position)[0])
        if left >= room:
            room = left + _READ_AHEAD
        stash = self._dispatcher.frames.take(room)
        stash[:left] = view[position:end]
        self._stash, self._filled = stash, left

    def _refuse_size(self, size: int) -> None:
        if size >> 8 in _TLS_HANDSHAKES:
            logger.warning(
                "Closing the connection from %s: the client speaks TLS, and listener %s does not",
                self.client_host,
                self.listener,
            )
        else:
            logger.warning(
                "Closing the connection from %s: a request of %d bytes is outside 0..%d (socket.request.max.bytes)",
                self.client_host,
                size,
                self.max_request_bytes,
            )
        self.close()

    def _pause(self) -> None:
        self._paused = True
        self._loop.remove_reader(self._fd)

    def _resume(self) -> None:
        if self._paused and not self.closed:
            self._paused = False
            self._loop.add_reader(self._fd, self._on_readable)
            if self._wire.has_received:
                self._loop.call_soon(self._receive_more)

    def mute(self, seconds: float) -> None:
        """Handle no further request of this client for some seconds; responses are still sent."""
        if self.closed:
            return
        self._busy = True
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self._loop.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._go_on()
        self._responses.send()

    def _go_on(self) -> None:
        """Handle stashed requests unless something else still blocks."""
        if (
            self._ending
            or self._blocked_by is not None
            or self._muted is not None
            or self._responses.size > _MAX_QUEUED
            or len(self._pending) >= _MAX_PENDING
        ):
            return
        self._busy = False
        self._resume()
        if self._filled:
            self._turns.note(self)
            self._take_stashed_frames()

    # Pending responses

    def await_response(self, pending: PendingResponse) -> None:
        """Send this response once complete, before the responses to later requests."""
        self._pending.append(pending)
        if pending.blocks:
            self._blocked_by = pending
            self._busy = True

    def hand_over(self, pending: PendingResponse, to: PendingResponse) -> None:
        if not pending.is_complete:
            self._pending[self._pending.index(pending)] = to
            if self._blocked_by is pending:
                self._blocked_by = to if to.blocks else None
                self.complete_soon()
        else:
            to.abandon()

    def encode_slowly(self, pending: PendingResponse) -> None:
        self._dispatcher.encode_slowly(pending)

    def complete_soon(self) -> None:
        """Send responses after this turn: one commit may complete many of them."""
        if not self._completing and not self.closed:
            self._completing = True
            self._loop.call_soon(self._complete_scheduled)

    def _complete_scheduled(self) -> None:
        self._completing = False
        self.complete()

    def complete(self) -> None:
        """Send the responses that are complete, in order, and continue with the next request."""
        if self._blocked_by is not None and self._blocked_by.is_complete:
            self._blocked_by = None
        pending = self._pending
        while pending and not self.closed:
            head = pending[0]
            if isinstance(head, PendingResponse):
                if not head.is_complete:
                    break
                pending.popleft()
                self._dispatcher.complete(head)
            else:
                pending.popleft()
                self._responses.put(*head)
        if not self.closed:
            if self._busy:
                self._go_on()
            self._responses.send()
            self._close_at_the_end()

    def end(self) -> None:
        """Close the connection after the response to the current request."""
        self._ending = True
        self._busy = True
        self._loop.call_soon(self._close_at_the_end)

    def _close_at_the_end(self) -> None:
        if self._ending and not self.closed and not self._pending and not self._responses.parts:
            self.close()

    # Sending

    def write(self, parts: list[Part], size: int, timing: RequestTiming | None = None) -> None:
        """Send one response of `size` bytes at the end of this turn, or after earlier pending responses."""
        if self._pending:
            self._pending.append((parts, size, timing))
        else:
            self._responses.put(parts, size, timing)

    def queue(self, parts: list[Part], size: int, timing: RequestTiming | None = None) -> None:
        self._responses.put(parts, size, timing)

    def on_sent(self) -> None:
        """Resume after the client has read some of its responses."""
        if self._busy and not self.closed:
            self._go_on()
            self._close_at_the_end()

    def on_read_failed(self, path: str, error: OSError) -> None:
        self._dispatcher.read_failed(path, error)
