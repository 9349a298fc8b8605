"""Requests and responses as seen by handlers, for every HTTP version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from ottla.http.access import Access
from ottla.http.body import Body
from ottla.http.errors import HttpError
from ottla.security.principal import ANONYMOUS, KafkaPrincipal

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
