"""Byte streams of connections: the interface, and the plain socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

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
