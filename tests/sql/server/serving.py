"""A SQL server in its own thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvloop

from ottla.sql.server.server import Listener, SqlServer


class Served:
    def __init__(self, server: SqlServer) -> None:
        self.server = server
        self.url = server.urls[0]
        self.http = httpx.Client(base_url=self.url, timeout=120)

    def ksql(self, text: str, **given: Any) -> httpx.Response:
        return self.http.post("/ksql", json={"ksql": text, **given})

    def done(self, text: str, **given: Any) -> list[dict[str, Any]]:
        answer = self.ksql(text, **given)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found


def no_spark() -> Any:
    raise AssertionError("this must not need Spark")


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "It did not happen."
        time.sleep(0.02)


@contextmanager
def serving(bootstrap_servers: str, spark: Any = no_spark, **options: Any) -> Iterator[Served]:
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(coroutine: Any, seconds: float = 120) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(seconds)

    async def start() -> SqlServer:
        given = {"listeners": [Listener("127.0.0.1", 0)], **options}
        server = SqlServer(spark, bootstrap_servers=bootstrap_servers, **given)
        await server.start()
        return server

    try:
        server = run(start())
        served = Served(server)
        try:
            wait_until(lambda: server.commands.is_ready)
            yield served
        finally:
            served.http.close()
            run(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
