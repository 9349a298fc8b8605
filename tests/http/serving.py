"""A server in its own thread, and clients that control every byte on its socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from ottla.http import HttpServer, Router


class Served:
    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop
        self.port = server.port
        self.url = f"http://127.0.0.1:{server.port}"

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def stop(self, grace_seconds: float = 5.0) -> None:
        self.run(self.server.stop(grace_seconds))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def exchange(self, sent: bytes) -> bytes:
        """Send bytes and return the response up to the end of the connection."""
        with self.connect() as connection:
            connection.sendall(sent)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while True:
        try:
            data = connection.recv(65536)
        except ConnectionResetError:
            return received
        if not data:
            return received
        received += data


def read_until(connection: socket.socket, found: Callable[[bytes], bool]) -> bytes:
    received = b""
    while not found(received):
        data = connection.recv(65536)
        assert data, f"The connection ended after {received!r}"
        received += data
    return received


@contextmanager
def serving(router: Router, **options: Any) -> Iterator[Served]:
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:

        async def start() -> HttpServer:
            server = HttpServer(router, "127.0.0.1", 0, **options)
            await server.start()
            return server

        served = Served(asyncio.run_coroutine_threadsafe(start(), loop).result(30), loop)
        try:
            yield served
        finally:
            served.stop(0.5)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
