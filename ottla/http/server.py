"""Sockets: accept connections, detect their HTTP version, and end them."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Collection
from typing import Any

from ottla.http.authentication import Authenticate
from ottla.http.cross_site import CrossSite
from ottla.http.dispatch import Decorate, Dispatcher
from ottla.http.http1 import Http1Connection
from ottla.http.http2 import PREFACE
from ottla.http.messages import Limits
from ottla.http.metrics import HttpMetrics
from ottla.http.router import Router
from ottla.http.shared import Client, Shared
from ottla.security.cross_site import SETTING
from ottla.security.principal import NoRuleApplies, PrincipalMapper
from ottla.security.tls.stores import subject_name_of

logger = logging.getLogger("ottla.http")

_BACKLOG = 1024
_HIGH_WATER = 256 * 1024


class HttpServer:
    """An HTTP server. Port 0 picks a free port, available as `port`. `tls` comes from
    `ottla.security.tls.contexts.server_context`.

    `authenticate` derives the principal from a request. Without it, the principal is the name in the client's
    certificate, mapped by `mapper`, or anonymous. `decorate` sees every response, for headers such as CORS.

    `names` are names of this server besides `host`, `origins` are web pages that may call it, and `names_setting` is
    the operator's setting for names: see `cross_site`. `has_login` is for servers whose handlers check the login.
    """

    def __init__(
        self,
        router: Router,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        authenticate: Authenticate | None = None,
        mapper: PrincipalMapper | None = None,
        max_body: int = 16 * 1024 * 1024,
        limits: Limits | None = None,
        decorate: Decorate | None = None,
        metrics: HttpMetrics | None = None,
        has_login: bool | None = None,
        names: Collection[str] = (),
        origins: Collection[str] = (),
        names_setting: str = SETTING,
    ) -> None:
        self.host = host
        self._wanted_port = port
        self._tls = tls
        self._mapper = mapper
        self._max_body = max_body
        self._limits = limits or Limits()
        asks = authenticate is not None if has_login is None else has_login
        cross_site = CrossSite(
            host, names=names, origins=origins, checks_host=not asks and tls is None, setting=names_setting
        )
        self._dispatcher = Dispatcher(router, authenticate, decorate, metrics, cross_site)
        self._shared: Shared | None = None
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises OSError if the port is unavailable."""
        self._shared = shared = Shared(self._dispatcher, self._limits, self._max_body, self._mapper)
        options: dict[str, Any] = {}
        if self._tls is not None:
            self._tls.set_alpn_protocols(["h2", "http/1.1"])
            options = {"ssl": self._tls, "ssl_handshake_timeout": self._limits.handshake_seconds}
        self._server = await shared.loop.create_server(
            lambda: _Accepted(shared), self.host, self._wanted_port, backlog=_BACKLOG, **options
        )
        self._sweeper = shared.loop.create_task(self._sweep(shared))

    @property
    def port(self) -> int:
        assert self._server is not None, "The server has not been started."
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        return len(self._shared.connections) if self._shared is not None else 0

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Refuse new requests, give running ones `grace_seconds` to finish, then cancel the rest."""
        shared, server = self._shared, self._server
        if shared is None or server is None:
            return
        shared.stopping = True
        server.close()
        deadline = shared.loop.time() + grace_seconds
        while True:
            busy = [connection for connection in list(shared.connections) if not connection.stop()]
            if not busy or shared.loop.time() >= deadline:
                break
            await asyncio.sleep(0.02)
        for connection in list(shared.connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
        left = [task for task in shared.tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=5.0)
        await server.wait_closed()
        self._server = None

    async def _sweep(self, shared: Shared) -> None:
        """Disconnect slow clients within a second of their deadline: a single timer costs nothing per request."""
        while True:
            await asyncio.sleep(1.0)
            shared.tick()
            now = shared.loop.time()
            for connection in list(shared.connections):
                try:
                    connection.check_deadlines(now)
                except Exception:
                    logger.exception("A connection could not be checked")


class _Accepted(asyncio.Protocol):
    """A new connection with a still unknown protocol."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._transport: asyncio.Transport | None = None
        self._client: Client | None = None
        self._begun = b""
        self._deadline = 0.0

    def connection_made(self, transport: Any) -> None:
        shared = self._shared
        self._transport = transport
        if shared.stopping or len(shared.connections) >= shared.limits.max_connections:
            transport.write(
                b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
            )
            transport.close()
            return
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        try:
            self._client = _client(shared, transport, tls)
        except (NoRuleApplies, ValueError) as error:
            logger.warning("A client's certificate is refused: %s", error)
            transport.abort()
            return
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._become_http2(b"")
        elif tls is not None:
            self._become_http1(b"")
        else:
            shared.connections.add(self)
            self._deadline = shared.loop.time() + shared.limits.header_seconds

    def data_received(self, data: bytes) -> None:
        if self._client is None:
            return
        begun = self._begun + data
        if begun.startswith(PREFACE):
            self._become_http2(begun)
        elif PREFACE.startswith(begun):
            self._begun = begun
        else:
            self._become_http1(begun)

    def _become_http1(self, data: bytes) -> None:
        assert self._transport is not None
        assert self._client is not None
        self._become(Http1Connection(self._shared, self._client, self._transport), data)

    def _become_http2(self, data: bytes) -> None:
        from ottla.http.http2 import Http2Connection

        assert self._transport is not None
        assert self._client is not None
        connection = Http2Connection(self._shared, self._client, self._transport)
        self._become(connection, b"")
        connection.begin()
        if data:
            connection.data_received(data)

    def _become(self, connection: Any, data: bytes) -> None:
        assert self._transport is not None
        self._shared.connections.discard(self)
        self._shared.connections.add(connection)
        self._transport.set_protocol(connection)
        if data:
            connection.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._shared.connections.discard(self)

    def check_deadlines(self, now: float) -> None:
        if now > self._deadline:
            self.abort()

    def stop(self) -> bool:
        self.abort()
        return True

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _client(shared: Shared, transport: Any, tls: ssl.SSLObject | None) -> Client:
    """Raises NoRuleApplies, and ValueError for a certificate with an unreadable name."""
    address = transport.get_extra_info("peername")
    peer = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "unknown"
    encoded = tls.getpeercert(binary_form=True) if tls is not None else None
    name = subject_name_of(encoded) if encoded else None
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        # A machine may vanish without closing: keepalive ends an idle stream to it after two minutes.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return Client(peer, name, shared.principal(name))
