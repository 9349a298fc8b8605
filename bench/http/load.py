"""Requests over many connections, as fast as they are answered, in a process of its own.

    python -m bench.http.load '{"url": "http://127.0.0.1:8081", "paths": ["/"], "connections": 32, "seconds": 5}'

prints what came back: requests a second, and how long they took. A connection sends the next request when the last was
answered. `method`, `bodies` and `headers` are for requests that write.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import uvloop


class Connection(asyncio.Protocol):
    """Knows just enough of HTTP: answers have a Content-Length, or come in chunks that end with an empty one."""

    def __init__(self, requests: itertools.cycle[bytes], until: float, times: list[float]) -> None:
        self._requests = requests
        self._until = until
        self._times = times
        self._data = b""
        self._sent = 0.0
        self.statuses: dict[int, int] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        self._sent = time.perf_counter()
        if self._sent >= self._until:
            self._transport.close()
            return
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._data[:end].lower()
        at = head.find(b"content-length:")
        if at >= 0:
            size = int(head[at + 15 :].split(b"\r\n", 1)[0])
            if len(self._data) < end + 4 + size:
                return
        elif not self._data.endswith(b"0\r\n\r\n"):
            return
        status = int(self._data[9:12])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self._times.append(time.perf_counter() - self._sent)
        self._data = b""
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _requests(given: dict[str, object]) -> list[bytes]:
    parts = urlsplit(str(given["url"]))
    headers = {"Host": parts.netloc, **given.get("headers", {})}  # type: ignore[dict-item]
    made = []
    bodies = given.get("bodies") or [""]
    for path in given["paths"]:  # type: ignore[attr-defined]
        for body in bodies:  # type: ignore[attr-defined]
            data = body.encode()
            lines = [f"{given.get('method', 'GET')} {path} HTTP/1.1"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if data:
                lines.append(f"Content-Length: {len(data)}")
            made.append("\r\n".join([*lines, "", ""]).encode() + data)
    return made


async def run(given: dict[str, object]) -> dict[str, object]:
    parts = urlsplit(str(given["url"]))
    times: list[float] = []
    began = time.perf_counter()
    seconds = float(given["seconds"])  # type: ignore[arg-type]
    requests = itertools.cycle(_requests(given))
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(int(given["connections"])):  # type: ignore[call-overload]
        _, protocol = await loop.create_connection(
            lambda: Connection(requests, began + seconds, times), parts.hostname, parts.port
        )
        connections.append(protocol)
    await asyncio.wait([each.done for each in connections])
    took = time.perf_counter() - began
    times.sort()
    statuses: dict[int, int] = {}
    for each in connections:
        for status, count in each.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    return {
        "requests": len(times),
        "per_second": len(times) / took,
        "p50_ms": times[len(times) // 2] * 1000,
        "p99_ms": times[int(len(times) * 0.99)] * 1000,
        "statuses": statuses,
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(run(json.loads(sys.argv[1])))))
