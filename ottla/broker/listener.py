"""Accepts connections on one listener and hands each to a `Connection`.

Sockets are driven directly (readers and writers on the event loop) instead of through transports: a response that
carries log segments can then go out by `sendfile`, and requests are parsed in the buffer that they were received in.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from ottla.broker.connection import Connection

if TYPE_CHECKING:
    from ottla.broker.dispatch import Dispatcher

logger = logging.getLogger(__name__)

_ACCEPTS_PER_TURN = 64


class Listener:
    """One bound address. Owned by the event loop."""

    def __init__(self, name: str, host: str, port: int, max_request_bytes: int) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.connections: set[Connection] = set()
        self._dispatcher: Dispatcher
        self._max_request_bytes = max_request_bytes
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Take the address; raises OSError when it cannot be had. Nothing is accepted yet."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.bind((self.host, self.port))
            listening.listen(4096)
        except OSError:
            listening.close()
            raise
        listening.setblocking(False)
        self._socket = listening
        self.port = listening.getsockname()[1]

    def open(self, dispatcher: Dispatcher) -> None:
        """Begin to accept."""
        assert self._socket is not None
        self._dispatcher = dispatcher
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._on_acceptable)

    def _on_acceptable(self) -> None:
        assert self._socket is not None
        assert self._loop is not None
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Out of file descriptors, most likely: keep serving those who are here and try again shortly.
                logger.error("Listener %s cannot accept a connection: %s", self.name, error)
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(0.5, self._resume)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(
                accepted, address[0], self.name, self._dispatcher, self._max_request_bytes, self._forget
            )
            self.connections.add(connection)
            connection.open(self._loop)

    def _resume(self) -> None:
        if self._socket is not None and self._loop is not None:
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)

    def _forget(self, connection: Connection) -> None:
        self.connections.discard(connection)

    def stop_accepting(self) -> None:
        if self._socket is not None:
            if self._loop is not None:
                self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self.connections):
            connection.close()
