"""Deferred responses: their order, the requests that they block, and clients that do not wait."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.network.connection import RECEIVE_BYTES, Connection
from ottla.broker.network.request_context import PendingResponse
from ottla.broker.network.request_times import Turns
from ottla.broker.network.wire import FrameBuffers, PlainWire


class Frames:
    """Stands in for the dispatcher: defers frames `p…`, defers frames `b…` and blocks, answers others immediately."""

    def __init__(self) -> None:
        self.frames = FrameBuffers()
        self.turns = Turns()
        self.receive_view = memoryview(bytearray(RECEIVE_BYTES))
        self.handled: list[str] = []
        self.pending: dict[str, PendingResponse] = {}
        self.abandoned: list[str] = []

    def rights(self, connection: Connection) -> None:
        """Allow everything."""

    def handle(self, connection: Connection, frame: memoryview) -> None:
        name = str(frame, "ascii")
        self.handled.append(name)
        if name[0] in "pb":
            context: Any = SimpleNamespace(connection=connection, name=name, is_large=False)
            pending = PendingResponse(
                context, blocks=name[0] == "b", on_abandon=lambda: self.abandoned.append(name)
            )
            self.pending[name] = pending
            connection.await_response(pending)
        else:
            connection.write([name.encode()], len(name))

    def complete(self, pending: PendingResponse) -> None:
        if pending.response is not None:
            response: Any = pending.response
            pending.context.connection.queue([response], len(response))

    def answer(self, name: str, response: bytes | None) -> None:
        answer: Any = response
        self.pending[name].complete_now(answer)


class Client:
    def __init__(self) -> None:
        self.dispatcher = Frames()
        ours, self._socket = socket.socketpair()
        ours.setblocking(False)
        self._socket.setblocking(False)
        dispatcher: Any = self.dispatcher
        self.connection = Connection(
            PlainWire(ours), "127.0.0.1", "PLAINTEXT", dispatcher, 1000, lambda _: None
        )
        self.connection.open(asyncio.get_running_loop())

    async def ask(self, *names: str) -> list[str]:
        """Send the requests and return every request handled so far."""
        frames = b"".join(len(name).to_bytes(4, "big") + name.encode() for name in names)
        await asyncio.get_running_loop().sock_sendall(self._socket, frames)
        await asyncio.sleep(0.01)
        return self.dispatcher.handled

    async def read(self) -> str:
        await asyncio.sleep(0.01)
        try:
            return str(self._socket.recv(100), "ascii")
        except BlockingIOError:
            return ""

    def disconnect(self) -> None:
        self._socket.close()


def run(test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        client = Client()
        await test(client)
        client.connection.close()
        client.disconnect()

    asyncio.run(main())


def test_later_responses_wait_for_their_turn() -> None:
    async def check(client: Client) -> None:
        assert await client.ask("p1", "at once", "p2") == ["p1", "at once", "p2"]
        client.dispatcher.answer("p2", b"<p2>")
        assert await client.read() == ""
        client.dispatcher.answer("p1", b"<p1>")
        assert await client.read() == "<p1>at once<p2>"

    run(check)


def test_a_blocking_response_holds_back_later_requests_and_no_longer_than_it_is_pending() -> None:
    async def check(client: Client) -> None:
        assert await client.ask("p1", "b", "later") == ["p1", "b"]
        client.dispatcher.answer("b", b"<b>")
        assert client.dispatcher.handled == ["p1", "b", "later"]
        client.dispatcher.answer("p1", b"<p1>")
        assert await client.read() == "<p1><b>later"

    run(check)


def test_a_request_that_expects_no_response_gets_none() -> None:
    async def check(client: Client) -> None:
        await client.ask("b", "next")
        client.dispatcher.answer("b", None)
        assert await client.read() == "next"

    run(check)


@pytest.mark.parametrize("name", ["p", "b"])
def test_what_a_client_waits_for_is_abandoned_once_when_it_disconnects(name: str) -> None:
    async def check(client: Client) -> None:
        await client.ask(name)
        client.disconnect()
        await asyncio.sleep(0.01)
        client.dispatcher.answer(name, b"too late")
        assert client.connection.closed
        assert client.dispatcher.abandoned == [name]
        assert client.dispatcher.pending[name].response is None

    run(check)
