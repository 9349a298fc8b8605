"""WebSockets (RFC 6455) after an HTTP/1.1 upgrade.

    async def echo(socket: WebSocket) -> None:
        while (message := await socket.receive()) is not None:
            await socket.send(message)

Invariant: at most `_QUEUED` messages wait for the handler; beyond that the socket is not read. Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Message,
    Ping,
    RejectConnection,
    TextMessage,
)
from wsproto.events import (
    Request as WsRequest,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from ottla.http.dispatch import log_failure
from ottla.http.messages import HttpError, Request
from ottla.http.router import WebSocketHandler, WebSocketRoute
from ottla.http.shared import Client, Shared

NORMAL, GOING_AWAY, PROTOCOL_ERROR, TOO_BIG, FAILED = 1000, 1001, 1002, 1009, 1011
_QUEUED = 64
_PING_SECONDS = 30.0


class WebSocket:
    """The handler's interface to a connection."""

    def __init__(self, connection: WebSocketConnection, request: Request) -> None:
        self.request = request
        self._connection = connection

    async def receive(self) -> str | bytes | None:
        """Return the next message, or None when the client has closed the connection."""
        return await self._connection.receive()

    async def send(self, message: str | bytes) -> None:
        """Send a message, waiting for a slow client. Does nothing once closed."""
        await self._connection.send(message)

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        self._connection.close(code, reason)

    @property
    def closed(self) -> bool:
        return self._connection.closed


class WebSocketConnection(asyncio.Protocol):
    def __init__(
        self, shared: Shared, client: Client, transport: asyncio.Transport, request: Request
    ) -> None:
        self._shared = shared
        self._client = client
        self._transport = transport
        self._request = request
        self._wire = WSConnection(ConnectionType.SERVER)
        self._messages: deque[str | bytes] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self._partial: list[str | bytes] = []
        self._partial_size = 0
        self._writable: asyncio.Future[None] | None = None
        self._blocked_since: float | None = None
        self._reading = True
        self._task: asyncio.Task[None] | None = None
        self._close_by: float | None = None
        self._next_ping = shared.loop.time() + _PING_SECONDS
        self._pings = 0  # unanswered pings
        self.closed = False

    def begin(self) -> None:
        headers = [(name.encode(), value.encode("latin-1")) for name, value in self._request.headers.items()]
        try:
            self._wire.initiate_upgrade_connection(headers, self._request.path)
            for event in self._wire.events():
                if isinstance(event, WsRequest):
                    self._accept(event)
        except (RemoteProtocolError, LocalProtocolError) as error:
            self._reject(HttpError(400, 400, f"Not a WebSocket handshake: {error}."))

    def _accept(self, event: WsRequest) -> None:
        try:
            found = self._shared.dispatcher.websocket(self._request)
        except HttpError as error:
            self._reject(error)
            return
        if isinstance(found, WebSocketRoute):
            self._serve(event, found)
        else:
            self._keep(self._accept_later(event, found))

    async def _accept_later(self, event: WsRequest, found: Awaitable[WebSocketRoute]) -> None:
        try:
            route = await found
        except HttpError as error:
            self._reject(error)
        except Exception as error:
            log_failure(self._request, error)
            self._reject(HttpError(500, 500, "Internal Server Error"))
        else:
            if not self.closed:
                self._serve(event, route)

    def _serve(self, event: WsRequest, route: WebSocketRoute) -> None:
        chosen = event.subprotocols[0] if event.subprotocols else None
        self._transport.write(self._wire.send(AcceptConnection(subprotocol=chosen)))
        self._keep(self._run(route.handler))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._shared.loop.create_task(work)
        self._shared.keep(self._task)

    def _reject(self, error: HttpError) -> None:
        response = self._shared.dispatcher.error(error, self._request)
        body = response.body if isinstance(response.body, bytes) else b""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(name.encode(), value.encode("latin-1")) for name, value in error.headers.items()]
        self.closed = True
        try:
            rejected = self._wire.send(
                RejectConnection(status_code=error.status, headers=headers, has_body=True)
            )
        except LocalProtocolError:
            reason = f"HTTP/1.1 {error.status} Bad Request\r\nContent-Length: {len(body)}\r\n\r\n"
            rejected = reason.encode()
        self._transport.write(rejected + body)
        self._transport.close()

    async def _run(self, handler: WebSocketHandler) -> None:
        code, reason = NORMAL, ""
        try:
            await handler(WebSocket(self, self._request))
        except asyncio.CancelledError:
            code = GOING_AWAY
        except HttpError as error:
            code, reason = FAILED, error.message
        except Exception as error:
            log_failure(self._request, error)
            code, reason = FAILED, "Internal Server Error"
        self.close(code, reason)

    # -- handler --

    async def receive(self) -> str | bytes | None:
        while not self._messages:
            if self.closed:
                return None
            self._arrived = self._shared.loop.create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        message = self._messages.popleft()
        if not self._reading and len(self._messages) < _QUEUED // 2 and not self.closed:
            self._reading = True
            self._transport.resume_reading()
        return message

    async def send(self, message: str | bytes) -> None:
        if self.closed:
            return
        event: Any = TextMessage(message) if isinstance(message, str) else BytesMessage(message)
        self._transport.write(self._wire.send(event))
        if self._writable is not None:
            await asyncio.shield(self._writable)

    def close(self, code: int, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self._wake()
        if self._wire.state is ConnectionState.OPEN:
            # A reason has at most 123 bytes.
            short = reason.encode()[:123].decode(errors="ignore")
            self._transport.write(self._wire.send(CloseConnection(code=code, reason=short)))
        self._close_by = self._shared.loop.time() + 2.0  # deadline for the client's close frame

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # -- transport --

    def data_received(self, data: bytes) -> None:
        self._pings = 0
        try:
            self._wire.receive_data(data)
            for event in self._wire.events():
                self._handle(event)
        except RemoteProtocolError as error:
            self._end(error.event_hint or CloseConnection(code=PROTOCOL_ERROR))
        except LocalProtocolError:
            self._transport.close()

    def _handle(self, event: Any) -> None:
        if isinstance(event, Message):
            self._partial.append(event.data)
            self._partial_size += len(event.data)
            if self._partial_size > self._shared.limits.max_websocket_message:
                self._end(CloseConnection(code=TOO_BIG, reason="The message is too large."))
                return
            if event.message_finished:
                whole: Any = ("" if isinstance(event, TextMessage) else b"").join(self._partial)  # type: ignore[arg-type]
                self._partial, self._partial_size = [], 0
                self._messages.append(whole)
                self._wake()
                if len(self._messages) >= _QUEUED and self._reading:
                    self._reading = False
                    self._transport.pause_reading()
        elif isinstance(event, Ping):
            self._transport.write(self._wire.send(event.response()))
        elif isinstance(event, CloseConnection):
            if self._wire.state is ConnectionState.REMOTE_CLOSING:
                self._transport.write(self._wire.send(event.response()))
            elif self._wire.state is ConnectionState.OPEN:  # generated by wsproto after an invalid frame
                self._transport.write(self._wire.send(event))
            self._gone()
            self._transport.close()

    def _end(self, closing: Any) -> None:
        """Close after a protocol violation by the client."""
        if closing is not None and self._wire.state is ConnectionState.OPEN:
            self._transport.write(self._wire.send(closing))
        self._gone()
        self._transport.close()

    def _gone(self) -> None:
        """Cancel the handler, because the client is gone."""
        self.closed = True
        self._wake()
        if self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._shared.connections.discard(self)
        self.resume_writing()
        self._gone()

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = self._shared.loop.create_future()
            self._blocked_since = self._shared.loop.time()

    def resume_writing(self) -> None:
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = self._blocked_since = None

    # -- server --

    def check_deadlines(self, now: float) -> None:
        if self._blocked_since is not None and now - self._blocked_since > self._shared.limits.write_seconds:
            self._transport.abort()
        elif self._close_by is not None:
            if now > self._close_by:
                self._transport.close()
        elif now > self._next_ping and self._wire.state is ConnectionState.OPEN:
            if self._pings >= 2:
                self._transport.abort()
                return
            self._pings += 1
            self._next_ping = now + _PING_SECONDS
            self._transport.write(self._wire.send(Ping()))

    def stop(self) -> bool:
        self.close(GOING_AWAY, "The server stops.")
        if self._task is not None:
            self._task.cancel()
        self._transport.close()
        return True

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()


def upgrade_to_websocket(
    shared: Shared, client: Client, transport: asyncio.Transport, request: Request
) -> WebSocketConnection:
    connection = WebSocketConnection(shared, client, transport, request)
    connection.begin()
    return connection
