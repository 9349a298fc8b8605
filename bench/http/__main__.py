"""One table: the schema registry and the REST proxy, with the load generator on the other core.

    python -m bench.http [--quick]

The limit is a server that answers the same bytes and looks at nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import uvloop

from bench.brokers import ottla
from bench.wire import free_port

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "com.example",
        "fields": [
            {"name": f"field{number}", "type": ["null", "string"], "default": None} for number in range(12)
        ],
    }
)
REGISTRY = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
JSON_RECORDS = {"Content-Type": "application/vnd.kafka.json.v2+json"}
GOALS = {
    "schema by id, requests/s": (10_000, "at least"),
    "schema by id, p99 ms": (10, "at most"),
    "registration, requests/s": (300, "at least"),
    "REST produce, 100 records a request, records/s": (20_000, "at least"),
    "open consumers over HTTP": (1_000, "at least"),
}


def load(url: str, paths: list[str], seconds: float, connections: int = 32, **more: Any) -> dict[str, Any]:
    given = {"url": url, "paths": paths, "seconds": seconds, "connections": connections, **more}
    run = subprocess.run(
        [sys.executable, "-m", "bench.http.load", json.dumps(given)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def request(method: str, url: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, headers or {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


@contextlib.contextmanager
def server(arguments: list[str], url: str) -> Iterator[str]:
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(process, url, arguments, log)
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, arguments: list[str], log: IO[str]) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                log.seek(0)
                raise RuntimeError(f"{' '.join(arguments)} does not answer: {log.read()[-2000:]}") from None
            time.sleep(0.05)


def registry_rows(url: str, seconds: float) -> dict[str, float]:
    registered = request("POST", f"{url}/subjects/orders-value/versions", {"schema": SCHEMA}, REGISTRY)
    path = f"/schemas/ids/{registered['id']}"
    read = load(url, [path], seconds)
    assert set(read["statuses"]) == {"200"}, read
    bodies = [
        json.dumps({"schema": SCHEMA.replace("Order", f"Order{number}")})
        for number in range(int(2000 * seconds))
    ]
    paths = [f"/subjects/new-{os.getpid()}-value/versions"]
    request("PUT", f"{url}/config/new-{os.getpid()}-value", {"compatibility": "NONE"}, REGISTRY)
    written = load(url, paths, seconds, 8, method="POST", bodies=bodies, headers=REGISTRY)
    assert set(written["statuses"]) == {"200"}, written
    return {
        "schema by id, requests/s": read["per_second"],
        "schema by id, p99 ms": read["p99_ms"],
        "registration, requests/s": written["per_second"],
    }


def limit_rows(seconds: float) -> dict[str, float]:
    """The same bytes from a server that looks at nothing."""
    port = free_port()
    code = (
        "import asyncio, uvloop, sys\n"
        "class P(asyncio.Protocol):\n"
        "    def connection_made(self, t): self.t = t\n"
        "    def data_received(self, d): self.t.write(ANSWER)\n"
        "BODY = b'x' * 900\n"
        "ANSWER = b'HTTP/1.1 200 OK\\r\\nContent-Length: 900\\r\\n\\r\\n' + BODY\n"
        "async def main():\n"
        "    s = await asyncio.get_running_loop().create_server(P, '127.0.0.1', int(sys.argv[1]))\n"
        "    await asyncio.Event().wait()\n"
        "uvloop.run(main())\n"
    )
    with server([sys.executable, "-c", code, str(port)], f"http://127.0.0.1:{port}") as url:
        found = load(url, ["/"], seconds)
    return {"schema by id, requests/s": found["per_second"], "schema by id, p99 ms": found["p99_ms"]}


def rest_rows(url: str, seconds: float, consumers: int) -> dict[str, float]:
    [cluster] = request("GET", f"{url}/v3/clusters")["data"]
    request("POST", f"{cluster['metadata']['self']}/topics", {"topic_name": "orders", "partitions_count": 4})
    body = json.dumps({"records": [{"value": {"number": number, "text": "x" * 80}} for number in range(100)]})
    written = load(url, ["/topics/orders"], seconds, 16, method="POST", bodies=[body], headers=JSON_RECORDS)
    assert set(written["statuses"]) == {"200"}, written
    opened = uvloop.run(_open_streams(url, consumers))
    return {
        "REST produce, 100 records a request, records/s": written["per_second"] * 100,
        "open consumers over HTTP": opened,
    }


async def _open_streams(url: str, count: int) -> float:
    """How many of them see a record that is written when all are open."""
    host, port = url.removeprefix("http://").split(":")
    streams = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"GET /topics/orders/stream HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        await reader.readuntil(b": connected\n\n")
        streams.append((reader, writer))
    body = json.dumps({"records": [{"value": {"marker": "for-all"}}]})
    await asyncio.to_thread(request, "POST", f"{url}/topics/orders", json.loads(body), JSON_RECORDS)

    async def sees(reader: asyncio.StreamReader) -> bool:
        try:
            async with asyncio.timeout(120):
                while b"for-all" not in await reader.readline():
                    pass
                return True
        except TimeoutError:
            return False

    seen = sum(await asyncio.gather(*(sees(reader) for reader, _ in streams)))
    for _, writer in streams:
        writer.close()
    return float(seen)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="little work per row")
    options = parser.parse_args()
    seconds, consumers = (0.5, 50) if options.quick else (8.0, 1000)
    contestant = ottla()
    try:
        bootstrap = contestant.shared().bootstrap_servers
        command = [str(Path(sys.executable).with_name("ottla"))]
        figures: dict[str, float] = {}
        address = f"127.0.0.1:{free_port()}"
        start = [*command, "registry", "start", "-q", "-l", address, "-b", bootstrap]
        with server(start, f"http://{address}/subjects"):
            figures |= registry_rows(f"http://{address}", seconds)
        address = f"127.0.0.1:{free_port()}"
        start = [*command, "rest", "start", "-q", "-l", address, "-b", bootstrap]
        with server(start, f"http://{address}/brokers"):
            figures |= rest_rows(f"http://{address}", seconds, consumers)
        limits = limit_rows(seconds)
    finally:
        contestant.close()
    print("| | Ottla | goal | limit | ratio |\n|---|---:|---:|---:|---:|")
    for name, value in figures.items():
        goal, direction = GOALS[name]
        limit = limits.get(name)
        beside = "| " if limit is None else f"{limit:,.0f} | {value / limit:.2f}"
        print(f"| {name} | {value:,.1f} | {direction} {goal:,} | {beside} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
