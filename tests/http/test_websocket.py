"""WebSockets: messages both ways, closing from both sides, and clients that break the rules."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from ottla.http import Limits
from tests.http.conftest import sample_router
from tests.http.serving import Served, serving


class Client:
    def __init__(self, served: Served, target: str = "/talk?name=a%20b") -> None:
        self.socket: socket.socket = served.connect()
        self.wire = WSConnection(ConnectionType.CLIENT)
        self.send(Request(host="localhost", target=target))
        self.pending: list[Any] = []

    def send(self, event: Any) -> None:
        self.socket.sendall(self.wire.send(event))

    def next(self) -> Any:
        while not self.pending:
            data = self.socket.recv(65536)
            self.wire.receive_data(data or None)
            self.pending += list(self.wire.events())
        return self.pending.pop(0)

    def until(self, kind: type[Any]) -> Any:
        while not isinstance(event := self.next(), kind):
            pass
        return event

    def close(self) -> None:
        self.socket.close()


def test_messages_go_both_ways(served: Served) -> None:
    client = Client(served)
    client.until(AcceptConnection)
    assert json.loads(client.until(TextMessage).data) == {"name": "a b"}
    client.send(TextMessage("héllo"))
    assert client.until(TextMessage).data == "héllo"
    client.send(BytesMessage(b"one ", message_finished=False))
    client.send(Ping(b"there?"))
    assert client.until(Pong).payload == b"there?"
    client.send(BytesMessage(b"message"))
    received = b""
    while not received.endswith(b"message"):
        received += client.until(BytesMessage).data
    assert received == b"one message"
    client.send(CloseConnection(1000, "bye"))
    assert client.until(CloseConnection).code == 1000
    client.close()


def test_a_handler_that_fails_closes_with_1011(served: Served) -> None:
    client = Client(served)
    client.until(TextMessage)
    client.send(TextMessage("fail"))
    assert client.until(CloseConnection).code == 1011
    client.close()


@pytest.mark.parametrize(("target", "status"), [("/quick", 404), ("/none", 404)])
def test_a_path_without_a_websocket_is_refused(served: Served, target: str, status: int) -> None:
    client = Client(served, target)
    assert client.until(RejectConnection).status_code == status
    client.close()


def test_a_handshake_of_another_version_is_refused(served: Served) -> None:
    answer = served.exchange(
        b"GET /talk HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 426"))


def test_a_message_that_is_too_large_is_refused() -> None:
    with serving(sample_router(), limits=Limits(max_websocket_message=1000)) as served:
        client = Client(served)
        client.until(TextMessage)
        client.send(TextMessage("x" * 1001))
        assert client.until(CloseConnection).code == 1009
        client.close()


def test_a_frame_without_a_mask_is_refused(served: Served) -> None:
    client = Client(served)
    client.until(TextMessage)
    client.socket.sendall(b"\x81\x02hi")
    assert client.until(CloseConnection).code == 1002
    client.close()


def test_stopping_closes_with_1001() -> None:
    with serving(sample_router()) as served:
        client = Client(served)
        client.until(TextMessage)
        served.stop(1)
        assert client.until(CloseConnection).code == 1001
        client.close()
