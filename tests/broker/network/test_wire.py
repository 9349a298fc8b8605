"""The contract between a connection and its wire: no bytes are lost if the wire buffers or cannot send files."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.network.connection import RECEIVE_BYTES, Connection
from ottla.broker.network.request_times import Turns
from ottla.broker.network.slow_lane import SlowLane
from ottla.broker.network.wire import FrameBuffers, PlainWire, TlsHandshake, Wire
from ottla.log.files.descriptors import FileRegion, SegmentFile
from ottla.security.certificates import make_authority


class GuardedWire:
    """Behaves like TLS: reads whole records from the socket, returns the requested bytes, and cannot send files."""

    send_file = None
    wants_room = False

    def __init__(self, sock: socket.socket) -> None:
        self._plain = PlainWire(sock)
        self._received = b""
        self.fd = self._plain.fd
        self.send = self._plain.send
        self.close = self._plain.close

    @property
    def has_received(self) -> bool:
        return bool(self._received)

    def receive_into(self, view: memoryview) -> int:
        if not self._received:
            buffer = bytearray(16 * 1024)
            self._received = bytes(buffer[: self._plain.receive_into(memoryview(buffer))])
        size = min(len(view), len(self._received), 5)
        view[:size] = self._received[:size]
        self._received = self._received[size:]
        return size


class Echo:
    """Stands in for the dispatcher: echoes every frame, and answers a frame `file` with a file."""

    def __init__(self, region: FileRegion) -> None:
        self.frames = FrameBuffers()
        self.turns = Turns()
        self.receive_view = memoryview(bytearray(RECEIVE_BYTES))
        self._region = region

    def rights(self, connection: Connection) -> None:
        """Allow everything."""

    def handle(self, connection: Connection, frame: memoryview) -> None:
        if frame == b"file":
            connection.write([b"<", self._region, b">"], len(self._region) + 2)
        else:
            connection.write([bytes(frame)], len(frame))


@pytest.mark.parametrize("make_wire", [PlainWire, GuardedWire])
def test_every_byte_arrives_in_order(make_wire: Callable[[socket.socket], Wire], tmp_path: Path) -> None:
    content = os.urandom(300_000)
    path = tmp_path / "segment"
    path.write_bytes(content)

    async def exchange() -> bytes:
        loop = asyncio.get_running_loop()
        dispatcher: Any = Echo(FileRegion(SegmentFile(str(path), writable=False), 0, len(content)))
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        connection = Connection(make_wire(ours), "127.0.0.1", "PLAINTEXT", dispatcher, 1000, lambda _: None)
        connection.open(loop)
        try:
            names = [b"first", b"file", b"x" * 900, b"last"]
            await loop.sock_sendall(theirs, b"".join(len(n).to_bytes(4, "big") + n for n in names))
            received = b""
            async with asyncio.timeout(20):
                while not received.endswith(b"last"):
                    received += await loop.sock_recv(theirs, 65536)
            return received
        finally:
            connection.close()
            theirs.close()

    assert asyncio.run(exchange()) == b"first<" + content + b">" + b"x" * 900 + b"last"


def test_every_byte_arrives_in_order_over_tls_through_small_buffers(tmp_path: Path) -> None:
    """OpenSSL requires a retry with the same bytes whenever the socket is full."""
    authority = make_authority()
    issued = authority.issue("broker", ["localhost"])
    (tmp_path / "broker.pem").write_bytes(issued.key_pem + issued.certificate_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "broker.pem")
    client = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    content = os.urandom(2_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    names = [b"first", b"file", b"x" * 900, b"file", b"y" * 5, b"last"]
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    def ask() -> bytes:
        with client.wrap_socket(theirs, server_hostname="localhost") as wrapped:
            wrapped.settimeout(30)
            wrapped.sendall(b"".join(len(n).to_bytes(4, "big") + n for n in names))
            received = bytearray()
            while not received.endswith(b"last"):
                received += wrapped.recv(70_000)
            return bytes(received)

    async def exchange() -> bytes:
        loop = asyncio.get_running_loop()
        dispatcher: Any = Echo(FileRegion(SegmentFile(str(path), writable=False), 0, len(content)))
        connected: asyncio.Future[Connection] = loop.create_future()

        def on_done(handshake: TlsHandshake, failure: str | None) -> None:
            assert failure is None
            connection = Connection(handshake.wire(), "127.0.0.1", "SSL", dispatcher, 1000, lambda _: None)
            connection.open(loop)
            connected.set_result(connection)

        TlsHandshake(ours, server, memoryview(bytearray(5000)), "127.0.0.1", loop, SlowLane(), on_done).start(
            30
        )
        try:
            return await asyncio.to_thread(ask)
        finally:
            (await connected).close()

    region = b"<" + content + b">"
    assert asyncio.run(exchange()) == b"first" + region + b"x" * 900 + region + b"yyyyylast"
