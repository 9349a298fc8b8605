"""A server counts requests by route and status, and its open streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

from ottla.http import Access, HttpError, HttpServer, Request, Response, Router, json_response
from ottla.http.metrics import HttpMetrics
from tests.broker.metrics.scraping import Metrics


async def more() -> list[str]:
    return ["# TYPE own gauge\nown 7\n"]


def test_requests_are_counted_by_route_and_status() -> None:
    asyncio.run(_count_requests())


async def _count_requests() -> None:
    going_on = asyncio.Event()

    async def greet(request: Request) -> Response:
        if request.params["name"] == "nobody":
            raise HttpError(422, 42201, "no name")
        return json_response({"hello": request.params["name"]})

    async def events(request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            yield b"one\n"
            await going_on.wait()
            yield b"two\n"

        return Response(200, parts(), "text/plain")

    router = Router()
    router.add("GET", "/greetings/{name}", greet, access=Access.ANYONE)
    router.add("GET", "/events", events, access=Access.ANYONE, produces=("text/plain",))
    metrics = HttpMetrics("test", more)
    metrics.add_to(router)
    server = HttpServer(router, "127.0.0.1", 0, metrics=metrics)
    await server.start()
    url = f"http://127.0.0.1:{server.port}"

    async def scraped(client: httpx.AsyncClient) -> Metrics:
        prometheus = (
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        )
        answer = await client.get(f"{url}/metrics", headers={"Accept": prometheus})
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return Metrics(answer.text)

    try:
        async with httpx.AsyncClient() as client:
            for name in ("ann", "bob", "nobody"):
                await client.get(f"{url}/greetings/{name}")
            assert (await client.get(f"{url}/other/{'x' * 50}")).status_code == 404
            found = await scraped(client)
            of = {"server": "test", "method": "GET", "route": "/greetings/{name}"}
            assert found.value("ottla_http_requests_total", **of, status="200") == 2
            assert found.value("ottla_http_requests_total", **of, status="422") == 1
            assert found.value("ottla_http_request_seconds_count", **of) == 3
            assert found.total("ottla_http_requests_total", route="none", status="404") == 1
            assert found.value("own") == 7
            async with client.stream("GET", f"{url}/events") as stream:
                lines = stream.aiter_lines()
                assert await anext(lines) == "one"
                assert (await scraped(client)).value("ottla_http_streams", server="test") == 1
                going_on.set()
                assert await anext(lines) == "two"
            assert (await scraped(client)).value("ottla_http_streams", server="test") == 0
    finally:
        await server.stop()
