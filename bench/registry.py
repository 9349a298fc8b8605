"""The schema registry: requests a second for schemas by their ids, and registrations a second.

    make bench-registry
    .venv/bin/python -m bench.registry --quick

Broker, registry and load are a process each. `--url` measures another registry of the same API instead.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import uvloop
from rich.console import Console
from rich.table import Table

from ottla.testing.ports import ReservedPorts

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
CONNECTIONS = 100
_numbers = itertools.count()


class Figure(NamedTuple):
    name: str
    per_second: float
    p50_ms: float
    p99_ms: float


@contextmanager
def servers(kind: str = "registry", path: str = "/subjects") -> Iterator[str]:
    """A broker and a registry, or another server beside it, and where that answers."""
    reserved = ReservedPorts(2)
    broker, port = reserved.numbers
    ottla = [sys.executable, "-m", "ottla.cli"]
    with tempfile.TemporaryDirectory(prefix="ottla-bench-registry-") as directory:
        started = [
            subprocess.Popen(
                [*ottla, "start", "--quiet", "--listen", f"127.0.0.1:{broker}", "--data", f"{directory}/data"]
            )
        ]
        try:
            started.append(
                subprocess.Popen(
                    [
                        *ottla,
                        kind,
                        "start",
                        "--quiet",
                        "-l",
                        f"127.0.0.1:{port}",
                        "-b",
                        f"127.0.0.1:{broker}",
                    ]
                )
            )
            url = f"http://127.0.0.1:{port}"
            _wait_for(f"{url}{path}")
            yield url
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise SystemExit(f"Nothing answers at {url}.")


def schema(number: int) -> str:
    """A record of twenty fields, as people have them."""
    fields = [{"name": f"field_{each}", "type": ["null", "string"], "default": None} for each in range(20)]
    return json.dumps({"type": "record", "name": f"Order{number}", "namespace": "shop", "fields": fields})


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {CONTENT_TYPE}\r\n\r\n".encode()


def _register(number: int) -> bytes:
    body = json.dumps({"schema": schema(number)}).encode()
    head = (
        f"POST /subjects/bench-{time.time_ns()}-{number}/versions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(url: str, name: str, make: Callable[[int], bytes], requests: int, connections: int) -> Figure:
    address = urlsplit(url)
    left = iter(range(requests))
    latencies: list[float] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        for _ in left:
            began = time.perf_counter()
            writer.write(make(next(_numbers)))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"{name}: {head.decode().splitlines()[0]}")
            length = next(
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - began)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    seconds = time.perf_counter() - began
    latencies.sort()
    at = [latencies[int(len(latencies) * part)] * 1000 for part in (0.5, 0.99)]
    return Figure(name, requests / seconds, *at)


async def measure(url: str, *, quick: bool) -> list[Figure]:
    reads, writes = (2_000, 50) if quick else (100_000, 2_000)
    await load(url, "warm up", _register, 10, 1)
    by_id, subjects = _get("/schemas/ids/1"), _get("/subjects")
    return [
        await load(url, f"schema by id, {CONNECTIONS} connections", lambda _: by_id, reads, CONNECTIONS),
        await load(
            url, f"list of subjects, {CONNECTIONS} connections", lambda _: subjects, reads // 10, CONNECTIONS
        ),
        await load(url, "register, 8 connections", _register, writes, 8),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little work: shows that it works, no more")
    parser.add_argument("--url", help="measure this registry instead of one of Ottla")
    arguments = parser.parse_args()

    def run(url: str) -> list[Figure]:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(measure(url, quick=arguments.quick))

    if arguments.url:
        figures = run(arguments.url)
    else:
        with servers() as url:
            figures = run(url)
    table = Table("", "per second", "median ms", "p99 ms")
    for each in figures:
        table.add_row(each.name, f"{each.per_second:,.0f}", f"{each.p50_ms:.2f}", f"{each.p99_ms:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
