"""HTTP/1.1 on a connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import httptools

from ottla.http.dispatch import log_failure
from ottla.http.messages import HIGH_WATER, Body, ClientDisconnected, HttpError, Request, Response
from ottla.http.shared import Client, Shared, check_header, status_line
from ottla.http.upgrades import H2C, WEBSOCKET, wanted_upgrade

# Check request headers and build response heads of HTTP/1.1. Pure.


class Exchange:
    """A request and the state of its response."""

    __slots__ = ("continue_expected", "keep_alive", "refusal", "request")

    def __init__(self, request: Request, keep_alive: bool, continue_expected: bool) -> None:
        self.request = request
        self.keep_alive = keep_alive
        self.continue_expected = continue_expected
        self.refusal: HttpError | None = None  # set for a malformed request


def response_head(exchange: Exchange, response: Response, length: int | None, date: str) -> bytes:
    """Return the response head. Without a length the body is chunked, or ends with the connection."""
    head = f"{status_line(response.status)}Date: {date}\r\n"
    if response.content_type is not None and response.has_body:
        head += f"Content-Type: {response.content_type}\r\n"
    if response.headers:
        for name, value in response.headers.items():
            check_header(name, value)
            head += f"{name}: {value}\r\n"
    if length is not None:
        if response.has_body:
            head += f"Content-Length: {length}\r\n"
    elif exchange.request.http_version == "1.1" and response.has_body:
        head += "Transfer-Encoding: chunked\r\n"
    if not exchange.keep_alive:
        head += "Connection: close\r\n"
    elif exchange.request.http_version == "1.0":
        head += "Connection: keep-alive\r\n"
    return (head + "\r\n").encode("latin-1", "replace")


def headers_too_large() -> HttpError:
    return HttpError(431, 431, "The headers of the request are too large.")


def refusal_of(headers: dict[str, str], version: str, chunked: bool, length: str | None) -> HttpError | None:
    """Refuse headers that llhttp accepts but two servers in a chain could interpret differently."""
    if chunked and length is not None:
        return HttpError(400, 400, "The request has both Content-Length and Transfer-Encoding.")
    if chunked and headers["transfer-encoding"].lower() != "chunked":
        return HttpError(501, 501, "Transfer-Encoding can only be chunked.")
    if chunked and version != "1.1":
        return HttpError(400, 400, "Transfer-Encoding needs HTTP/1.1.")
    if length is not None and not (length.isascii() and length.isdigit()):
        return HttpError(400, 400, "Content-Length is not a number.")
    if version not in ("1.1", "1.0"):
        return HttpError(505, 505, f"HTTP/{version} is not supported.")
    if version == "1.1" and "host" not in headers:
        return HttpError(400, 400, "The header Host is missing.")
    if "expect" in headers and headers["expect"].lower() != "100-continue":
        return HttpError(417, 417, "Expect can only be 100-continue.")
    return None


def origin_form(target: str) -> str:
    """Return the path of `http://host/path`, which a client may send as well."""
    scheme, found, rest = target.partition("://")
    if not found or "/" in scheme:
        return target
    return "/" + rest.partition("/")[2]


def head_without_upgrade(request: Request) -> bytes:
    target = request.path + (f"?{request.query_string}" if request.query_string else "")
    lines = [f"{request.method} {target} HTTP/{request.http_version}"]
    lines += [
        f"{name}: {value}" for name, value in request.headers.items() if name not in ("upgrade", "connection")
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


# An HTTP/1.1 or 1.0 connection: parsed by llhttp, answered in order.
#
# Invariant: one request is answered at a time, and responses leave in request order. Pipelined requests are
# parsed and wait in `_waiting`. While requests wait there, or the current body is unread, the socket is not
# read either. Owner: the event loop.

_LINGER_SECONDS = 2.0
_SKIPPED = 64 * 1024
_NO_BODY = Body()


class Http1Connection(asyncio.Protocol):
    def __init__(self, shared: Shared, client: Client, transport: asyncio.Transport) -> None:
        self._shared = shared
        self._limits = shared.limits
        self._client = client
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        # The request being parsed.
        self._url = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._header_count = 0
        self._in_headers = False
        self._refusal: HttpError | None = None
        self._parsed: Exchange | None = None
        self._upgrade: tuple[str, Request] | None = None
        self._again = b""
        # Requests being answered.
        self._current: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._task: asyncio.Task[None] | None = None
        self._streaming = False
        self._reading = True
        self._writable: asyncio.Future[None] | None = None
        self._blocked_since: float | None = None
        self._closing = False  # no further responses
        self._lost = False
        self._deadline: float | None = shared.loop.time() + self._limits.header_seconds

    # -- transport --

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        began_before = self._in_headers
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._after_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            self._malformed(error)
            return
        if self._in_headers and began_before:
            # llhttp buffers an incomplete header, so its bytes are counted here.
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.max_header_bytes:
                self._refuse_rest(headers_too_large())

    def eof_received(self) -> bool:
        if self._streaming or self._current is None:
            return False
        # The client has sent everything and waits for the response; then the connection ends.
        self._current.keep_alive = False
        self._fail_body()
        return self._transport.can_write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = self._closing = True
        self._shared.connections.discard(self)
        self._deadline = None
        self._waiting.clear()
        self._fail_body()
        self.resume_writing()
        if self._streaming and self._task is not None:
            self._task.cancel()

    def _fail_body(self) -> None:
        for exchange in (self._current, self._parsed):
            if exchange is not None:
                exchange.request.content.fail(ClientDisconnected("The client has closed the connection."))

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
        if self._blocked_since is not None and now - self._blocked_since > self._limits.write_seconds:
            self._transport.abort()
        elif self._deadline is not None and now > self._deadline:
            if self._in_headers and not self._closing:
                self._refuse_rest(HttpError(408, 408, "The headers of the request did not arrive in time."))
            else:
                self._transport.abort() if self._closing else self._transport.close()
        elif self._current is not None:
            self._current.request.content.expire(now)

    def stop(self) -> bool:
        if self._current is not None and not self._lost:
            self._current.keep_alive = False
            return False
        self._transport.close()
        return True

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    # -- parser --

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}
        self._header_bytes = self._header_count = 0
        self._in_headers = True
        self._refusal = None
        if self._current is None:
            self._deadline = self._shared.loop.time() + self._limits.header_seconds

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > self._limits.max_header_bytes:
            self._refusal = HttpError(414, 414, "The target of the request is too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_headers:
            return  # ignore trailers
        self._header_count += 1
        self._header_bytes += len(name) + len(value) + 4
        if (
            self._header_bytes > self._limits.max_header_bytes
            or self._header_count > self._limits.max_headers
        ):
            self._refusal = headers_too_large()
            return
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip()
        if key in self._headers:
            if key in ("host", "content-length", "transfer-encoding"):
                self._refusal = HttpError(400, 400, f"The header {key} is there twice.")
            text = f"{self._headers[key]}{'; ' if key == 'cookie' else ', '}{text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._header_bytes = 0
        self._deadline = None
        if self._closing:
            return
        headers = self._headers
        version = self._parser.get_http_version()
        length, chunked = headers.get("content-length"), "transfer-encoding" in headers
        has_body = chunked or (length is not None and length != "0")
        refusal = self._refusal or refusal_of(headers, version, chunked, length)
        target = self._url.decode("latin-1")
        if not target.startswith("/"):
            target = origin_form(target)
        body = (
            Body(self, int(length) if length and not chunked and length.isdigit() else None)
            if has_body
            else _NO_BODY
        )
        client = self._client
        request = Request(
            self._parser.get_method().decode("latin-1"),
            target,
            headers,
            body,
            http_version=version,
            peer=client.peer,
            principal=client.principal,
            tls_name=client.tls_name,
            max_body=self._shared.max_body,
            body_seconds=self._limits.body_seconds,
        )
        exchange = Exchange(
            request,
            self._parser.should_keep_alive() and refusal is None,
            has_body and version == "1.1" and headers.get("expect", "").lower() == "100-continue",
        )
        exchange.refusal = refusal
        self._parsed = exchange if has_body else None
        if refusal is None and "upgrade" in headers and self._parser.should_upgrade():
            if has_body:
                # llhttp reads no body after an Upgrade header. Without an upgrade the request is parsed again without
                # it.
                self._again = head_without_upgrade(request)
                self._parsed = None
                return
            kind = wanted_upgrade(request)
            if kind is not None and self._current is None and not (kind == H2C and client.tls_name):
                self._upgrade = kind, request
                return
        if self._current is None:
            self._answer(exchange)
        else:
            self._waiting.append(exchange)
            self._pause_reading()

    def on_body(self, data: bytes) -> None:
        if self._parsed is None:
            return
        body = self._parsed.request.content
        self._parsed.continue_expected = False
        body.feed(data)
        if body.buffered > HIGH_WATER:
            self._pause_reading()

    def on_message_complete(self) -> None:
        if self._parsed is not None:
            self._parsed.request.content.end()
            self._parsed = None

    # -- body --

    def body_wanted(self) -> None:
        exchange = self._current
        if exchange is not None and exchange.continue_expected:
            exchange.continue_expected = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def body_read(self, count: int, buffered: int) -> None:
        if not self._waiting:
            self._resume_reading()

    # -- responses --

    def _answer(self, exchange: Exchange) -> None:
        self._current = exchange
        if exchange.refusal is not None:
            self._finish(exchange, self._shared.dispatcher.error(exchange.refusal, exchange.request))
            return
        result = self._shared.dispatcher.respond(exchange.request)
        if isinstance(result, Response) and isinstance(result.body, bytes) and exchange.request.content.ended:
            self._finish(exchange, result)
            return
        self._task = self._shared.loop.create_task(self._answer_later(exchange, result))
        self._shared.keep(self._task)

    async def _answer_later(
        self, exchange: Exchange, result: Response | Coroutine[Any, Any, Response]
    ) -> None:
        try:
            response = result if isinstance(result, Response) else await result
            if isinstance(response.body, bytes):
                await self._skip_small_body(exchange)
                self._finish(exchange, response)
            else:
                await self._stream(exchange, response, response.body)
        except (ClientDisconnected, asyncio.CancelledError):
            self._transport.abort()
        except Exception as error:
            # The response has started: only an abrupt end can signal the failure to the client.
            log_failure(exchange.request, error)
            self._transport.abort()

    async def _skip_small_body(self, exchange: Exchange) -> None:
        """Skip the rest of a small unread body, for example after a 404, to keep the connection."""
        content = exchange.request.content
        if content.ended or exchange.continue_expected or content.length is None or content.length > _SKIPPED:
            return
        content.deadline = self._shared.loop.time() + self._limits.body_seconds
        try:
            while await content.chunk():
                pass
        except HttpError:
            exchange.keep_alive = False

    def _finish(self, exchange: Exchange, response: Response) -> None:
        body = response.body
        assert isinstance(body, bytes)
        head = self._head_of(exchange, response, len(body))
        if not self._lost:
            if body and exchange.request.method != "HEAD" and response.has_body:
                self._transport.write(head + body)
            else:
                self._transport.write(head)
        if response.on_close is not None:
            response.on_close()
        self._next(exchange)

    async def _stream(self, exchange: Exchange, response: Response, parts: AsyncIterator[bytes]) -> None:
        chunked = exchange.request.http_version == "1.1"
        if not chunked:
            exchange.keep_alive = False
        self._streaming = True
        try:
            if self._lost:
                return
            self._transport.write(self._head_of(exchange, response, None))
            if exchange.request.method != "HEAD":
                async for part in parts:
                    if not part:
                        continue
                    self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                    if self._writable is not None:
                        await asyncio.shield(self._writable)
                    if self._lost:
                        return
                if chunked:
                    self._transport.write(b"0\r\n\r\n")
        finally:
            self._streaming = False
            close = getattr(parts, "aclose", None)
            if close is not None:
                await close()
            if response.on_close is not None:
                response.on_close()
        self._next(exchange)

    def _head_of(self, exchange: Exchange, response: Response, length: int | None) -> bytes:
        if not exchange.request.content.ended or self._shared.stopping:
            exchange.keep_alive = False
        return response_head(exchange, response, length, self._shared.date)

    def _next(self, exchange: Exchange) -> None:
        self._task = None
        self._current = None
        if self._lost:
            return
        if not exchange.keep_alive:
            self._close(unread=not exchange.request.content.ended or exchange.refusal is not None)
            return
        if self._writable is not None and self._waiting:
            # The client sends without reading: its next request waits until it has read this response.
            self._writable.add_done_callback(lambda _: self._answer_waiting())
            return
        if self._waiting:
            # Use call_soon: answering many requests from here would recurse deeply.
            self._shared.loop.call_soon(self._answer_waiting)
            return
        limits = self._limits
        seconds = limits.header_seconds if self._in_headers else limits.keep_alive_seconds
        self._deadline = self._shared.loop.time() + seconds
        self._resume_reading()

    def _answer_waiting(self) -> None:
        if self._current is None and self._waiting and not self._lost:
            self._answer(self._waiting.popleft())

    # -- end --

    def _malformed(self, error: Exception) -> None:
        reason = " ".join(str(error).split()) or type(error).__name__
        self._refuse_rest(HttpError(400, 400, f"The request is not HTTP: {reason}."))

    def _refuse_rest(self, refusal: HttpError) -> None:
        """Refuse unparseable input: answer after the earlier requests, then close the connection."""
        if self._parsed is not None:  # in the middle of a body
            self._parsed.request.content.fail(refusal)
            self._parsed.keep_alive = False
            self._pause_reading()
            return
        refused = Exchange(Request("", "", {}, _NO_BODY, peer=self._client.peer), False, False)
        refused.refusal = refusal
        self._in_headers = False
        if self._current is None:
            self._answer(refused)
        else:
            self._waiting.append(refused)
            self._pause_reading()

    def _close(self, *, unread: bool) -> None:
        self._closing = True
        self._waiting.clear()
        if not unread or not self._transport.can_write_eof():
            self._transport.close()
            return
        # Closing a socket with unread bytes resets it and may lose the response, so give the client a moment.
        self._transport.write_eof()
        self._deadline = self._shared.loop.time() + _LINGER_SECONDS
        self._resume_reading()

    def _pause_reading(self) -> None:
        if self._reading and not self._lost:
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading and not self._lost:
            self._reading = True
            self._transport.resume_reading()

    # -- other protocols --

    def _after_upgrade(self, rest: bytes) -> None:
        if self._upgrade is None:
            # The upgrade is not supported: the request was answered normally, and the next one follows.
            self._parser = httptools.HttpRequestParser(self)
            rest, self._again = self._again + rest, b""
            if rest:
                self.data_received(rest)
            return
        kind, request = self._upgrade
        self._shared.connections.discard(self)
        if kind == WEBSOCKET:
            from ottla.http.websocket import upgrade_to_websocket

            upgraded: Any = upgrade_to_websocket(self._shared, self._client, self._transport, request)
        else:
            from ottla.http.http2 import upgrade_to_http2

            upgraded = upgrade_to_http2(self._shared, self._client, self._transport, request)
        self._transport.set_protocol(upgraded)
        self._shared.connections.add(upgraded)
        if rest:
            upgraded.data_received(rest)
