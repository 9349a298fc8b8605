"""What a connection reads from and writes to: a socket, as it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

# With `send`: more follows at once, so a segment need not go out half full.
MORE_FOLLOWS = socket.MSG_MORE


class Wire(Protocol):
    """An established stream of bytes. A wire that begins with a handshake is given to a connection after it.

    No call waits: BlockingIOError says that the socket has to be readable (for a receive) or writable (for a send)
    first. What was sent in part is offered again from where it stopped. Owner: the event loop.
    """

    @property
    def fd(self) -> int:
        """The socket, for the event loop to watch."""
        ...

    @property
    def peer_port(self) -> int:
        """The port at the client's end; 0 if it has gone."""
        ...

    @property
    def has_received(self) -> bool:
        """More bytes can be received although the socket is not readable."""
        ...

    @property
    def wants_room(self) -> bool:
        """Nothing can be received before something was sent that is the wire's own business."""
        ...

    @property
    def receive_into(self) -> Callable[[memoryview], int]:
        """Fill a buffer; returns the number of bytes, 0 at the end of the stream."""
        ...

    @property
    def send(self) -> Callable[[Buffer, int], int]:
        """Send bytes, with `MORE_FOLLOWS` or 0; returns how many were taken."""
        ...

    @property
    def send_file(self) -> Callable[[int, int, int], int] | None:
        """Send from a file (descriptor, position, size) without reading it; None where that is not possible."""
        ...

    def close(self) -> None: ...


class PlainWire:
    """A socket without encryption. Its functions are the operating system's own, so that nothing comes between."""

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
