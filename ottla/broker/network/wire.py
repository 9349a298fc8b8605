"""Byte streams of connections: the interface, the plain socket, TLS, and buffers for requests in pieces."""

from __future__ import annotations

import asyncio
import mmap
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeAlias

from ottla.broker.network.slow_lane import Job, SlowLane, Work

# Buffers for requests that arrive in pieces.

_SMALL = 64 * 1024
_LARGE = 16 * 1024 * 1024
_KEPT_BYTES = 32 * 1024 * 1024


class FrameBuffers:
    """Provides buffers of the announced request size that use memory only for received bytes.

    Large buffers are anonymous mappings: untouched pages take no memory, so a client that announces a large request and
    sends nothing costs nothing. A few buffers, already backed by memory, are kept for the next request. Owner: the
    event loop.
    """

    def __init__(self) -> None:
        self._kept: list[memoryview] = []
        self._kept_bytes = 0

    def take(self, size: int) -> memoryview:
        """Return at least `size` bytes with arbitrary contents."""
        if size <= _SMALL:
            return memoryview(bytearray(size))
        for at, kept in enumerate(self._kept):
            if len(kept) >= size:
                self._kept_bytes -= len(kept)
                return self._kept.pop(at)
        return memoryview(mmap.mmap(-1, size))

    def give_back(self, buffer: memoryview) -> None:
        if _SMALL < len(buffer) <= _LARGE:
            self._kept.append(buffer)
            self._kept_bytes += len(buffer)
            while self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= len(self._kept.pop(0))


# Byte streams of connections: the interface, and the plain socket.

Buffer: TypeAlias = bytes | bytearray | memoryview

# Flag for `send`: more bytes follow immediately, so a TCP segment need not go out half full.
MORE_FOLLOWS = socket.MSG_MORE


class Wire(Protocol):
    """An established byte stream. A wire with a handshake is passed to a connection after it.

    No call waits: BlockingIOError means that the socket must become readable (to receive) or writable (to send) first.
    After a partial send, the caller offers the remaining bytes again. Owner: the event loop.
    """

    @property
    def fd(self) -> int: ...

    @property
    def peer_port(self) -> int:
        """Return the client's port; 0 after a disconnect."""
        ...

    @property
    def has_received(self) -> bool:
        """Return True if more bytes can be received although the socket is not readable."""
        ...

    @property
    def wants_room(self) -> bool:
        """Return True if the wire must send protocol bytes of its own before it can receive."""
        ...

    @property
    def receive_into(self) -> Callable[[memoryview], int]:
        """Fill a buffer. Return the number of bytes, 0 at the end of the stream."""
        ...

    @property
    def send(self) -> Callable[[Buffer, int], int]:
        """Send bytes, with `MORE_FOLLOWS` or 0. Return the number of bytes accepted."""
        ...

    @property
    def send_file(self) -> Callable[[int, int, int], int] | None:
        """Send from a file (descriptor, position, size) without reading it; None if unsupported."""
        ...

    def close(self) -> None: ...


class PlainWire:
    """A socket without encryption. Its functions are the operating system's own, without a layer in between."""

    __slots__ = ("_socket", "fd", "receive_into", "send", "send_file")

    has_received = False
    wants_room = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fd = sock.fileno()
        self.receive_into: Callable[[memoryview], int] = sock.recv_into
        self.send: Callable[[Buffer, int], int] = sock.send
        self.send_file: Callable[[int, int, int], int] | None = partial(os.sendfile, self.fd)

    @property
    def peer_port(self) -> int:
        return peer_port(self._socket)

    def close(self) -> None:
        self._socket.close()


def peer_port(sock: socket.socket) -> int:
    try:
        port: int = sock.getpeername()[1]
        return port
    except OSError:
        return 0


# TLS on a non-blocking socket: the handshake, driven by the event loop, and the wire of an established connection.
#
# OpenSSL works on memory buffers, and this module moves the bytes to and from the socket. If OpenSSL read the socket
# itself, each record would take two system calls, and clients send many small records.

# Maximum bytes to encrypt at a time: four records.
_PIECE_BYTES = 64 * 1024
# Maximum bytes to read from a socket at a time.
RECEIVE_BYTES = 64 * 1024
_NOTHING = memoryview(b"")

HUNG_UP = "the client hung up"
_NO_TLS = "the client does not speak TLS"
_NOT_TRUSTED = "the client does not trust our certificate"
# OpenSSL's reasons in the operator's terms.
_REASONS = {
    "HTTP_REQUEST": _NO_TLS,
    "HTTPS_PROXY_REQUEST": _NO_TLS,
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "UNSUPPORTED_PROTOCOL": "the client wants a version of TLS that is not in ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "the client has none of the cipher suites of this listener (ssl.cipher.suites)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and ssl.client.auth asks for one",
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client finds our certificate expired",
    "UNEXPECTED_EOF_WHILE_READING": HUNG_UP,
}


class _Stream:
    """OpenSSL between two memory buffers, and the socket that fills and drains them.

    `room` is the receive buffer, shared by all wires of an event loop because nothing stays in it.
    """

    __slots__ = ("_incoming", "_outgoing", "_room", "_unsent", "socket", "tls")

    def __init__(self, accepted: socket.socket, context: ssl.SSLContext, room: memoryview) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.socket = accepted
        self._room = room
        self._unsent = _NOTHING

    def receive(self) -> bool:
        """Read from the socket. Return False at the end of the stream. Raises BlockingIOError and OSError."""
        received = self.socket.recv_into(self._room)
        if not received:
            self._incoming.write_eof()
            return False
        self._incoming.write(self._room[:received])
        return True

    def flush(self, flags: int = 0) -> bool:
        """Send OpenSSL's output. Return True if all of it is sent."""
        if self._outgoing.pending:
            made = self._outgoing.read()
            self._unsent = memoryview(bytes(self._unsent) + made if self._unsent else made)
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent, flags) :]
        except (BlockingIOError, InterruptedError):
            return False
        return True


class TlsHandshake:
    """Invariant: `on_done` is called once, with None or the reason of the failure, unless closed earlier.

    After a failure the socket stays open, so that the caller can delay closing it. Owner: the event loop.
    """

    def __init__(
        self,
        accepted: socket.socket,
        context: ssl.SSLContext,
        room: memoryview,
        client_host: str,
        loop: asyncio.AbstractEventLoop,
        lane: SlowLane,
        on_done: Callable[[TlsHandshake, str | None], None],
    ) -> None:
        """`room` is the receive buffer, shared by all handshakes of an event loop because nothing stays in it.

        Each step takes one or two milliseconds and waits for its turn in the slow lane. A thousand clients connecting
        at once therefore do not block the others.
        """
        self.client_host = client_host
        self._stream = _Stream(accepted, context, room)
        self._fd = accepted.fileno()
        self._loop = loop
        self._lane = lane
        self._job: Job | None = None
        self._on_done = on_done
        self._is_reading = self._is_writing = False
        self.timer: asyncio.TimerHandle | None = None  # runs until the failure, then until closing

    def start(self, seconds: float) -> None:
        self.timer = self._loop.call_later(seconds, self._expire, seconds)
        self._queue()

    def close(self) -> None:
        self._stop()
        self._stream.socket.close()

    @property
    def certificate(self) -> bytes | None:
        return self._stream.tls.getpeercert(binary_form=True)

    def wire(self) -> TlsWire:
        return TlsWire(self._stream)

    def _queue(self) -> None:
        self._unwatch()
        self._job = self._lane.run(self._steps(), lambda *_: None)

    def _steps(self) -> Work[None]:
        yield None
        self._step()

    def _step(self) -> None:
        stream = self._stream
        try:
            while True:
                try:
                    stream.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    if not stream.flush():
                        self._watch(reading=False)
                        return
                    stream.receive()
        except (BlockingIOError, InterruptedError):
            self._watch(reading=True)
        except (OSError, ValueError) as error:
            with suppress(OSError):
                stream.flush()  # the alert with the reason
            self._finish(reason_of(error))
        else:
            self._finish(None)

    def _watch(self, *, reading: bool) -> None:
        if reading and not self._is_reading:
            self._loop.add_reader(self._fd, self._queue)
        elif not reading and self._is_reading:
            self._loop.remove_reader(self._fd)
        if not reading and not self._is_writing:
            self._loop.add_writer(self._fd, self._queue)
        elif reading and self._is_writing:
            self._loop.remove_writer(self._fd)
        self._is_reading, self._is_writing = reading, not reading

    def _expire(self, seconds: float) -> None:
        self._finish(f"the client did not finish within {seconds:g} s")

    def _finish(self, reason: str | None) -> None:
        self._stop()
        self._on_done(self, reason)

    def _stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self._job is not None:
            self._job.stop()
        self._unwatch()

    def _unwatch(self) -> None:
        if self._is_reading:
            self._loop.remove_reader(self._fd)
        if self._is_writing:
            self._loop.remove_writer(self._fd)
        self._is_reading = self._is_writing = False


def reason_of(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return HUNG_UP
    if isinstance(error, ssl.SSLError) and error.reason:
        return _REASONS.get(error.reason, error.reason.replace("_", " ").lower())
    return str(error)


class TlsWire:
    """A `Wire` over a stream with a completed handshake.

    Invariant: encrypted bytes are sent before anything else. A piece counts as sent once its last byte is out; until
    then it stays at the head of the send queue and is offered again. Owner: the event loop.
    """

    __slots__ = ("_has_more", "_is_at_end", "_read", "_stream", "_unfinished", "_write", "fd", "wants_room")

    send_file = None

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self.fd = stream.socket.fileno()
        self._read: Callable[[int, memoryview], int] = stream.tls.read  # type: ignore[assignment]
        self._write = stream.tls.write
        self._unfinished = 0  # size of the encrypted piece not fully sent
        self._has_more = True  # the client may have sent more than its handshake
        self._is_at_end = False
        self.wants_room = not stream.flush()  # TLS has bytes of its own to send, without a response

    @property
    def has_received(self) -> bool:
        return self._is_at_end or self._has_more or self.wants_room

    def receive_into(self, view: memoryview) -> int:
        """Read as many received bytes as fit. The event loop does not report bytes already in memory."""
        if self._is_at_end:
            return 0
        filled = self._fill(view)
        if not self._unfinished:  # otherwise the next `send` flushes
            self.wants_room = not self._stream.flush()
        if not filled and not self._is_at_end:
            raise BlockingIOError
        return filled

    def _fill(self, view: memoryview) -> int:
        size, filled = len(view), 0
        self._has_more = False
        try:
            while True:
                try:
                    while filled < size:
                        received = self._read(size - filled, view[filled:])
                        if not received:
                            self._is_at_end = True
                            return filled
                        filled += received
                    self._has_more = True
                    return filled
                except ssl.SSLWantReadError:
                    self._stream.receive()
        except (BlockingIOError, InterruptedError):
            return filled
        except ssl.SSLEOFError:
            self._is_at_end = True  # closed without a TLS alert
        except OSError:
            if not filled:
                raise
            self._is_at_end = True  # earlier bytes still count
        return filled

    def send(self, data: Buffer, flags: int) -> int:
        view = memoryview(data)
        sent = 0
        while sent < len(view):
            piece = self._unfinished
            if not piece:
                piece = self._write(view[sent : sent + _PIECE_BYTES])
            if not self._stream.flush(flags):
                self._unfinished = piece
                break
            sent += piece
            self._unfinished = 0
        if not sent:
            raise BlockingIOError
        return sent

    @property
    def peer_port(self) -> int:
        return peer_port(self._stream.socket)

    def close(self) -> None:
        # Send close_notify if there is room; do not wait for the response.
        with suppress(OSError, ValueError):
            self._stream.tls.unwrap()
        with suppress(OSError, ValueError):
            self._stream.flush()
        self._stream.socket.close()
