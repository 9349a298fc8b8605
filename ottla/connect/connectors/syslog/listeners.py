"""Listening sockets, each read by a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from ottla.connect.errors import ConnectError

#: Called with the message, the sender's address and its port.
Received = Callable[[bytes, str, int], None]

_LARGEST = 65_535
_CHUNK = 65_536
_TICK = 0.5


class _Listener:
    def __init__(self, kind: socket.SocketKind, host: str, port: int, received: Received) -> None:
        self._received = received
        self._stopping = threading.Event()
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except (OSError, OverflowError) as error:
            self._socket.close()
            reason = getattr(error, "strerror", None) or str(error)
            raise ConnectError(
                f"Cannot listen at {host}:{port}: {reason}. Check syslog.port and syslog.listen.address."
            ) from None
        self._socket.settimeout(_TICK)
        self.port: int = self._socket.getsockname()[1]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._run(self._listen)

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _listen(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * _TICK)
        self._socket.close()


class UdpListener(_Listener):
    def __init__(self, host: str, port: int, received: Received) -> None:
        super().__init__(socket.SOCK_DGRAM, host, port, received)

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                data, sender = self._socket.recvfrom(_LARGEST)
            except TimeoutError:
                continue
            except OSError:
                return
            self._received(data, sender[0], sender[1])


class TcpListener(_Listener):
    def __init__(self, host: str, port: int, received: Received) -> None:
        super().__init__(socket.SOCK_STREAM, host, port, received)
        self._socket.listen()

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, sender = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self._run(self._read, connection, sender)

    def _read(self, connection: socket.socket, sender: tuple[str, int]) -> None:
        with connection:
            connection.settimeout(_TICK)
            rest = b""
            while not self._stopping.is_set():
                try:
                    data = connection.recv(_CHUNK)
                except TimeoutError:
                    continue
                except OSError:
                    break
                if not data:
                    break
                messages, rest = frames(rest + data)
                for each in messages:
                    self._received(each, sender[0], sender[1])
            if rest.strip(b"\r\n\0"):
                self._received(rest, sender[0], sender[1])


def frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Split data into complete messages and the remainder, by octet count or by line (RFC 6587)."""
    found: list[bytes] = []
    while data:
        length, blank, rest = data.partition(b" ")
        if length.isdigit() and not length.startswith(b"0") and len(length) <= 6:
            if not blank or len(rest) < int(length):
                break
            found.append(rest[: int(length)])
            data = rest[int(length) :]
            continue
        line, end, rest = data.partition(b"\n")
        if not end:
            if len(line) > _LARGEST * 16:
                # No syslog sender writes lines this long.
                found.append(line)
                data = b""
            break
        if line.strip(b"\r\0"):
            found.append(line)
        data = rest
    return found, data
