from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("httptools")

from ottla.http import Access, HttpError, Request, Response, Router, WebSocket, json_response
from ottla.http.router import ANY_BODY
from tests.http.serving import Served, serving


def sample_router() -> Router:
    router = Router(consumes=ANY_BODY, produces=("application/vnd.test.v1+json", "application/json"))

    async def show(request: Request) -> Response:
        return json_response(
            {"params": request.params, "query": request.query, "principal": str(request.principal)},
            content_type=request.produces,
        )

    def quick(request: Request) -> Response:
        return Response(200, b'"quick"')

    async def echo(request: Request) -> Response:
        return Response(200, await request.body(), "application/octet-stream")

    async def digest(request: Request) -> Response:
        found, size = hashlib.sha256(), 0
        async for chunk in request.chunks():
            found.update(chunk)
            size += len(chunk)
        return json_response({"sha256": found.hexdigest(), "size": size})

    async def unread(request: Request) -> Response:
        return json_response("not read")

    async def lines(request: Request) -> Response:
        async def made() -> AsyncIterator[bytes]:
            for number in range(int(request.query.get("count", "3"))):
                yield f"line {number}\n".encode()
                await asyncio.sleep(0)

        return Response(200, made(), "text/plain")

    async def breaks(request: Request) -> Response:
        async def made() -> AsyncIterator[bytes]:
            yield b"begun"
            raise RuntimeError("in the middle")

        return Response(200, made(), "text/plain")

    async def refuses(request: Request) -> Response:
        raise HttpError(422, 42201, "Invalid schema")

    async def fails(request: Request) -> Response:
        raise RuntimeError("a bug with a\nline break")

    async def splits(request: Request) -> Response:
        return Response(200, b"", None, {"X-Value": request.query["value"]})

    async def empty(request: Request) -> Response:
        return Response(204)

    async def talk(socket: WebSocket) -> None:
        await socket.send(json.dumps(socket.request.query))
        while (message := await socket.receive()) is not None:
            if message == "fail":
                raise RuntimeError("a bug")
            await socket.send(message)

    router.add("GET", "/show/{subject}/versions/{version}", show, access=Access.USER)
    router.add("GET", "/show/latest/versions/{version}", quick, access=Access.USER)
    router.add("GET", "/show", show, access=Access.USER)
    router.add("GET", "/quick", quick, access=Access.USER)
    router.add("POST", "/echo", echo, access=Access.USER)
    router.add("POST", "/digest", digest, access=Access.USER)
    router.add("POST", "/unread", unread, access=Access.USER)
    router.add("POST", "/json", echo, access=Access.USER, consumes=("application/json",))
    router.add("GET", "/lines", lines, access=Access.USER)
    router.add("GET", "/breaks", breaks, access=Access.USER)
    router.add("GET", "/refuses", refuses, access=Access.USER)
    router.add("GET", "/fails", fails, access=Access.USER)
    router.add("GET", "/splits", splits, access=Access.USER)
    router.add("DELETE", "/show", empty, access=Access.USER)
    router.websocket("/talk", talk, access=Access.USER)
    return router


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(sample_router(), max_body=1_000_000) as running:
        yield running


def header_lines(response: bytes) -> dict[str, str]:
    head = response.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    pairs: Any = (line.split(": ", 1) for line in head)
    return {name.lower(): value for name, value in pairs}
