"""TLS on a non-blocking socket: the handshake, driven by the event loop, and the wire that a connection has after it.

OpenSSL's calls may have to wait for the other direction: a receive for room to send, and a send for something to read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from ottla.broker.network.wire import Buffer

# The most that OpenSSL is given at a time: four records. What was given once has to be given again until it is out.
_PIECE_BYTES = 64 * 1024

HUNG_UP = "the client hung up"
_NO_TLS = "the client does not speak TLS"
_NOT_TRUSTED = "the client does not trust our certificate"
# What OpenSSL says, for those who have to do something about it.
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


class TlsHandshake:
    """Invariant: `on_done` is called once, with None or with why it failed, unless it is closed before that.

    After a failure the socket is still open, so that the one who asked for it can take its time. Owner: the event loop.
    """

    def __init__(
        self,
        accepted: socket.socket,
        context: ssl.SSLContext,
        client_host: str,
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[[TlsHandshake, str | None], None],
    ) -> None:
        """OSError, if the client has gone already."""
        self.client_host = client_host
        self.socket = context.wrap_socket(
            accepted, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )
        self._fd = self.socket.fileno()
        self._loop = loop
        self._on_done = on_done
        self._is_reading = self._is_writing = False
        self.timer: asyncio.TimerHandle | None = None  # until it has failed, and then until it is closed

    def start(self, seconds: float) -> None:
        self.timer = self._loop.call_later(seconds, self._expire, seconds)
        self._step()

    def close(self) -> None:
        self._stop()
        self.socket.close()

    @property
    def certificate(self) -> bytes | None:
        """Of the client, as DER."""
        return self.socket.getpeercert(binary_form=True)

    def _step(self) -> None:
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(reading=True)
        except ssl.SSLWantWriteError:
            self._watch(reading=False)
        except (OSError, ValueError) as error:
            self._finish(reason_of(error))
        else:
            self._finish(None)

    def _watch(self, *, reading: bool) -> None:
        if reading and not self._is_reading:
            self._loop.add_reader(self._fd, self._step)
        elif not reading and self._is_reading:
            self._loop.remove_reader(self._fd)
        if not reading and not self._is_writing:
            self._loop.add_writer(self._fd, self._step)
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
        if self._is_reading:
            self._loop.remove_reader(self._fd)
        if self._is_writing:
            self._loop.remove_writer(self._fd)
        self._is_reading = self._is_writing = False


def reason_of(error: OSError | ValueError) -> str:
    """Why a handshake failed, without the source lines of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return HUNG_UP
    if isinstance(error, ssl.SSLError) and error.reason:
        return _REASONS.get(error.reason, error.reason.replace("_", " ").lower())
    return str(error)


class TlsWire:
    """A `Wire` over a socket whose handshake is complete.

    Invariant: bytes that OpenSSL could not send are offered again before any others, in a piece of the same size; the
    queue of a connection keeps them at its head. Owner: the event loop.
    """

    __slots__ = ("_is_at_end", "_read", "_socket", "_unfinished", "_write", "fd", "wants_room")

    send_file = None

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._socket = sock
        self.fd = sock.fileno()
        self._read: Callable[[int, memoryview], int] = sock.read  # type: ignore[assignment]
        self._write = sock.send
        self._unfinished = 0  # the size of the piece that OpenSSL has taken in part
        self._is_at_end = False
        self.wants_room = False  # OpenSSL has to send something before it can go on receiving

    @property
    def has_received(self) -> bool:
        return self._is_at_end or self.wants_room or self._socket.pending() > 0

    def receive_into(self, view: memoryview) -> int:
        """Takes all records that have arrived: what OpenSSL has read already, the event loop is not told of."""
        if self._is_at_end:
            return 0
        size, filled = len(view), 0
        self.wants_room = False
        try:
            while filled < size:
                received = self._read(size - filled, view[filled:])
                if not received:
                    self._is_at_end = True
                    break
                filled += received
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            self.wants_room = True
        except OSError:
            if not filled:
                raise
            self._is_at_end = True  # what arrived before counts
        if not filled and not self._is_at_end:
            raise BlockingIOError
        return filled

    def send(self, data: Buffer, flags: int) -> int:
        view = memoryview(data)
        sent = 0
        while sent < len(view):
            size = self._unfinished or _PIECE_BYTES
            piece = view[sent : sent + size]
            try:
                sent += self._write(piece)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self._unfinished = len(piece)
                if not sent:
                    raise BlockingIOError from None
                break
            self._unfinished = 0
        return sent

    def close(self) -> None:
        # Says that nothing was cut off, if there is room for it; the answer is not waited for.
        with suppress(OSError, ValueError):
            self._socket.unwrap()
        self._socket.close()
