"""`GET /metrics`, for brokers and for programs without another HTTP server.

A few lines of HTTP/1.1 replace `ottla.http`, because a broker installs without that package's parser and the requests
are always the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from time import monotonic
from typing import Any, Self

from ottla.monitoring.metrics.text import CONTENT_TYPE
from ottla.security.cross_site import SETTING, CrossSite, is_loopback

Login = Callable[[str | None, str], Awaitable[int]]
# Returns whether all is well, and the JSON object of the answer.
HealthCheck = Callable[[], Awaitable[tuple[bool, Mapping[str, object]]]]

logger = logging.getLogger(__name__)

_SLICE_SECONDS = 0.0005
_HEAD_BYTES = 16 * 1024
# Prometheus keeps its connection between scrapes. A client without a first request is soon disconnected.
_IDLE_SECONDS = 120.0
_FIRST_SECONDS = 10.0
_MAX_CONNECTIONS = 32
# kafka_exporter's liveness path, which does not contact the cluster.
_HEALTH = "/healthz"


async def in_slices(lines: Iterable[str]) -> str:
    """Join the lines in slices, yielding to the event loop after each slice."""
    pieces: list[str] = []
    until = monotonic() + _SLICE_SECONDS
    for piece in lines:
        pieces.append(piece)
        if monotonic() >= until:
            await asyncio.sleep(0)
            until = monotonic() + _SLICE_SECONDS
    return "".join(pieces)


class MetricsEndpoint:
    """Serves the text made by `render`. Foreign web pages are rejected, see `ottla.security.cross_site`.

    `login` returns 200, 401 or 403 for an Authorization header and the caller's address. Without it everyone may read
    the metrics. `health_checks` are further paths, such as `/readyz`, which need no login: 200 if all is well,
    otherwise 503. Owner: the event loop.
    """

    def __init__(
        self,
        host: str,
        port: int,
        render: Callable[[], Awaitable[str]],
        path: str = "/metrics",
        *,
        login: Login | None = None,
        names: Collection[str] = (),
        names_setting: str = SETTING,
        health_checks: Mapping[str, HealthCheck] | None = None,
    ) -> None:
        self.host = host
        self._login = login
        self._health_checks = health_checks or {}
        if not is_loopback(host):
            names = (*names, socket.gethostname(), socket.getfqdn())
        self._cross_site = CrossSite(host, names=names, checks_host=login is None, setting=names_setting)
        self.port = port
        self._render = render
        self._path = path
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host or "localhost"
        return f"http://{host}:{self.port}{self._path}"

    async def start(self) -> None:
        """Raises OSError if the port is unavailable."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=_HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) >= _MAX_CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            patience = _FIRST_SECONDS
            while await self._answer(reader, writer, patience):
                patience = _IDLE_SECONDS
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the client has disconnected, is silent or speaks another protocol
        except Exception:
            logger.exception("The metrics could not be shown")
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float
    ) -> bool:
        """Answer one request. Return True to keep the connection."""
        async with asyncio.timeout(patience):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *fields = head.split("\r\n")
        method, _, rest = request.partition(" ")
        path, _, version = rest.partition(" ")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)
        }
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close" and not has_body
        address = writer.get_extra_info("peername")
        caller = str(address[0]) if isinstance(address, tuple) else ""
        status, kind, body = await self._response(method, path.partition("?")[0], headers, caller)
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n".encode()
        )
        if method != "HEAD":
            writer.write(body)
        async with asyncio.timeout(_IDLE_SECONDS):
            await writer.drain()
        return keep

    async def _response(
        self, method: str, path: str, headers: Mapping[str, str], caller: str
    ) -> tuple[str, str, bytes]:
        refusal = self._cross_site.refusal(method, headers)
        if refusal is not None:
            reason = HTTPStatus(refusal.status).phrase
            return f"{refusal.status} {reason}", "text/plain", f"{refusal.message}\n".encode()
        if self._login is not None and path != _HEALTH and path not in self._health_checks:
            status = await self._login(headers.get("authorization"), caller)
            if status == 401:
                challenge = '401 Unauthorized\r\nWWW-Authenticate: Basic realm="metrics"'
                return challenge, "text/plain", b"Log in with a user of the cluster.\n"
            if status != 200:
                return "403 Forbidden", "text/plain", b"This user needs DESCRIBE on the cluster.\n"
        if method not in ("GET", "HEAD"):
            return "405 Method Not Allowed\r\nAllow: GET, HEAD", "text/plain", b"Only GET is served here.\n"
        if path == self._path:
            return "200 OK", CONTENT_TYPE, (await self._render()).encode()
        if path == _HEALTH:
            return "200 OK", "text/plain", b"ok"
        if (check := self._health_checks.get(path)) is not None:
            is_well, state = await check()
            status_line = "200 OK" if is_well else "503 Service Unavailable"
            return status_line, "application/json", json.dumps(state).encode() + b"\n"
        found = "200 OK" if path == "/" else "404 Not Found"
        return found, "text/plain", f"The metrics are at {self._path}.\n".encode()


class MetricsThread:
    """An endpoint with its own event loop, for programs without one. Calls `render` in that thread."""

    def __init__(
        self,
        host: str,
        port: int,
        render: Callable[[], str],
        path: str = "/metrics",
        *,
        names: Collection[str] = (),
        names_setting: str = SETTING,
    ) -> None:
        async def answer() -> str:
            return await asyncio.to_thread(render)

        self._endpoint = MetricsEndpoint(host, port, answer, path, names=names, names_setting=names_setting)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="metrics", daemon=True)

    @property
    def url(self) -> str:
        return self._endpoint.url

    def start(self) -> Self:
        """Raises OSError if the port is unavailable."""
        self._thread.start()
        try:
            self._wait(self._endpoint.start())
        except OSError:
            self._end()
            raise
        return self

    def stop(self) -> None:
        self._wait(self._endpoint.stop())
        self._end()

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
