"""Requests and responses as handlers see them, whatever version of HTTP they travel by."""

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
    """`path` is as it was sent; `params` are the parts of it that the route names, percent-decoded."""

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
        self.tls_name = tls_name  # of the client's certificate, as Java writes it
        self.max_body = max_body
        self.body_seconds = body_seconds
        self.params = NO_PARAMS
        self.access = Access.ADMIN  # of the caller; a login that knows levels may lower it
        self.produces = JSON  # what the client accepts of that which the route produces
        self.route = ""  # the pattern of its path, when a handler was found
        self._query: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"<{self.method} {self.path} from {self.peer}>"

    @property
    def query(self) -> dict[str, str]:
        """Of a parameter that is there twice, the last value."""
        if self._query is None:
            self._query = dict(self.query_values())
        return self._query

    def query_values(self) -> list[tuple[str, str]]:
        if not self.query_string:
            return []
        return parse_qsl(self.query_string, keep_blank_values=True, errors="replace")

    @property
    def content_type(self) -> str:
        """Without parameters such as the character set, in lower case; empty if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def body(self) -> bytes:
        """All of it. Raises HttpError 413 if it is larger than this server allows, 408 if it comes too slowly."""
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
        """The body as it arrives, however long it is and takes."""
        while data := await self.content.chunk():
            yield data

    async def json(self) -> Any:
        """Raises HttpError 400 if the body is no JSON."""
        data = await self.body()
        try:
            return json.loads(data)
        except RecursionError:
            raise HttpError(400, 400, "The JSON in the body is nested too deeply.") from None
        except ValueError as error:
            raise HttpError(400, 400, f"The body is not JSON: {error}.") from None


def percent_decoded(text: str) -> str:
    """Of a part of a path. Raises HttpError 400 if the bytes are not UTF-8."""
    if "%" not in text:
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise HttpError(400, 400, f"{text} is not percent-encoded UTF-8.") from None


class Response:
    """`on_close` is called when the response is over, whether it was sent or the client went away before."""

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
