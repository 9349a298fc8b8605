"""Requests and responses, their bodies, errors and limits."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from ottla.http.access import Access
from ottla.security.principal import ANONYMOUS, KafkaPrincipal

# Exceptions that handlers raise to refuse a request.


class HttpError(Exception):
    """Rendered as `{"error_code": …, "message": …}`, unless the router renders errors differently."""

    def __init__(
        self, status: int, error_code: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.headers = dict(headers or {})


class ClientDisconnected(Exception):
    """The client disconnected while its request was read."""


# Limits for clients, in bytes and seconds.


@dataclass(frozen=True, slots=True)
class Limits:
    max_connections: int = 10_000
    # Names and values of all request headers, including the request line.
    max_header_bytes: int = 64 * 1024
    max_headers: int = 200
    # From the first byte of a request to the end of its headers, and from the connection to its first byte.
    header_seconds: float = 15.0
    # Between two requests.
    keep_alive_seconds: float = 75.0
    # Maximum time for a body, plus one second for each received kilobyte.
    body_seconds: float = 30.0
    # A client that reads nothing of its response for this long is gone.
    write_seconds: float = 60.0
    # Concurrent streams per HTTP/2 connection.
    max_streams: int = 200
    max_websocket_message: int = 8 * 1024 * 1024
    # Limit of the TLS handshake.
    handshake_seconds: float = 15.0


# Content negotiation: match a route's types with the client's Accept header (RFC 9110, section 12.5.1).


@lru_cache(maxsize=1024)
def best(accept: str, offered: tuple[str, ...]) -> str | None:
    """Return the best type, or None. The first offered type wins a tie."""
    ranges = _ranges(accept)
    if not ranges:
        return offered[0]
    chosen, weight = None, 0.0
    for each in offered:
        quality = _quality(each.partition(";")[0].strip().lower(), ranges)
        if quality > weight:
            chosen, weight = each, quality
    return chosen


def _ranges(accept: str) -> list[tuple[str, float]]:
    found = []
    for part in accept.split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if not name:
            continue
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip().lower() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    quality = 0.0
        found.append((name.lower(), quality))
    return found


def _quality(kind: str, ranges: Sequence[tuple[str, float]]) -> float:
    family = kind.partition("/")[0] + "/*"
    given = dict(ranges)
    for name in (kind, family, "*/*", "*"):
        if name in given:
            return given[name]
    return 0.0


# A request's body on its way from the connection to the handler.
#
# Invariant: the number of unread bytes is bounded. An HTTP/1 connection stops reading its socket when
# `buffered` exceeds `HIGH_WATER`; an HTTP/2 connection opens the client's window only as far as the handler
# has read. Owner: the event loop.

HIGH_WATER = 256 * 1024
_SLOWEST = 1000  # bytes per second, after `Limits.body_seconds`


class BodySource(Protocol):
    """The connection, as seen by a body."""

    def body_wanted(self) -> None:
        """Tell the client to continue (100-continue), because the handler waits for bytes."""

    def body_read(self, count: int, buffered: int) -> None:
        """Report that the handler has read `count` bytes and `buffered` bytes remain."""


class Body:
    __slots__ = (
        "_chunks",
        "_failure",
        "_source",
        "_waiter",
        "buffered",
        "deadline",
        "ended",
        "length",
        "received",
    )

    def __init__(self, source: BodySource | None = None, length: int | None = None) -> None:
        self._source = source
        self._chunks: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self.length = length  # as declared, or None
        self.buffered = 0
        self.received = 0
        self.ended = source is None
        self.deadline: float | None = None  # set while a reader waits for the whole body

    @property
    def empty(self) -> bool:
        return self.ended and not self.received

    # -- connection --

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        self.buffered += len(data)
        self.received += len(data)
        if self.deadline is not None:
            self.deadline += len(data) / _SLOWEST
        self._wake()

    def end(self) -> None:
        self.ended = True
        self._wake()

    def fail(self, reason: Exception) -> None:
        if not self.ended and self._failure is None:
            self._failure = reason
            self._wake()

    def expire(self, now: float) -> None:
        if self.deadline is not None and now > self.deadline:
            self.fail(HttpError(408, 408, "The body of the request did not arrive in time."))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- handler --

    async def chunk(self) -> bytes:
        """Return the bytes received since the last call; empty at the end."""
        while not self._chunks:
            if self._failure is not None:
                raise self._failure
            if self.ended:
                return b""
            if self._source is not None:
                self._source.body_wanted()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = b"".join(self._chunks) if len(self._chunks) > 1 else self._chunks[0]
        self._chunks.clear()
        self.buffered = 0
        if self._source is not None:
            self._source.body_read(len(data), 0)
        return data


# Requests and responses as seen by handlers, for every HTTP version.

JSON = "application/json"
NO_PARAMS: dict[str, str] = {}


class Request:
    """`path` is as sent; `params` are the path parts named by the route, percent-decoded."""

    __slots__ = (
        "_query",
        "access",
        "body_seconds",
        "content",
        "headers",
        "http_version",
        "max_body",
        "method",
        "params",
        "path",
        "peer",
        "principal",
        "produces",
        "query_string",
        "route",
        "tls_name",
    )

    def __init__(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        content: Body,
        *,
        http_version: str = "1.1",
        peer: str = "",
        principal: KafkaPrincipal = ANONYMOUS,
        tls_name: str | None = None,
        max_body: int = 1 << 20,
        body_seconds: float = 30.0,
    ) -> None:
        path, _, query = target.partition("?")
        self.method = method
        self.path = path
        self.query_string = query
        self.headers = headers
        self.content = content
        self.http_version = http_version
        self.peer = peer
        self.principal = principal
        self.tls_name = tls_name  # name in the client's certificate, in Java's format
        self.max_body = max_body
        self.body_seconds = body_seconds
        self.params = NO_PARAMS
        self.access = Access.ADMIN  # the caller's level; a login that assigns levels may lower it
        self.produces = JSON  # negotiated content type
        self.route = ""  # pattern of the path, once a handler was found
        self._query: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"<{self.method} {self.path} from {self.peer}>"

    @property
    def query(self) -> dict[str, str]:
        """Query parameters; the last value wins."""
        if self._query is None:
            self._query = dict(self.query_values())
        return self._query

    def query_values(self) -> list[tuple[str, str]]:
        if not self.query_string:
            return []
        return parse_qsl(self.query_string, keep_blank_values=True, errors="replace")

    @property
    def content_type(self) -> str:
        """Content type in lower case without parameters; empty if missing."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def body(self) -> bytes:
        """Return the whole body. Raises HttpError 413 if it is too large, 408 if it is too slow."""
        content = self.content
        if content.length is not None and content.length > self.max_body:
            raise self._too_large()
        if content.ended:
            data = await content.chunk()
            if len(data) > self.max_body:
                raise self._too_large()
            return data
        parts: list[bytes] = []
        size = 0
        content.deadline = asyncio.get_running_loop().time() + self.body_seconds
        try:
            while data := await content.chunk():
                size += len(data)
                if size > self.max_body:
                    raise self._too_large()
                parts.append(data)
        finally:
            content.deadline = None
        return b"".join(parts)

    def _too_large(self) -> HttpError:
        return HttpError(413, 413, f"The request is larger than {self.max_body} bytes.")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives, without limits of size or time."""
        while data := await self.content.chunk():
            yield data

    async def json(self) -> Any:
        """Raises HttpError 400 if the body is not JSON."""
        data = await self.body()
        try:
            return json.loads(data)
        except RecursionError:
            raise HttpError(400, 400, "The JSON in the body is nested too deeply.") from None
        except ValueError as error:
            raise HttpError(400, 400, f"The body is not JSON: {error}.") from None


def percent_decoded(text: str) -> str:
    """Decode part of a path. Raises HttpError 400 if the bytes are not UTF-8."""
    if "%" not in text:
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise HttpError(400, 400, f"{text} is not percent-encoded UTF-8.") from None


class Response:
    """A response. `on_close` is called at its end, whether it was sent or the client disconnected."""

    __slots__ = ("body", "content_type", "headers", "on_close", "status")

    def __init__(
        self,
        status: int = 200,
        body: bytes | AsyncIterator[bytes] = b"",
        content_type: str | None = JSON,
        headers: Mapping[str, str] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers
        self.on_close = on_close

    @property
    def has_body(self) -> bool:
        return self.status >= 200 and self.status not in (204, 304)


def json_response(
    value: Any,
    status: int = 200,
    *,
    content_type: str = JSON,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return Response(status, body, content_type, headers)
