"""The REST proxy: records a second in requests of a hundred, and a thousand open streams.

    make bench-registry
    .venv/bin/python -m bench.rest --quick

Broker, proxy and load are a process each.
"""

from __future__ import annotations

import argparse
import asyncio
import json

import uvloop
from rich.console import Console
from rich.table import Table

from bench.registry import Figure, load, servers

_HEADERS = "Content-Type: application/vnd.kafka.json.v2+json"
RECORDS = 100


def _produce(records: list[object]) -> bytes:
    body = json.dumps({"records": records}).encode()
    return (
        f"POST /topics/orders HTTP/1.1\r\nHost: localhost\r\n{_HEADERS}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


async def _seen(url: str, count: int) -> int:
    """How many streams are open at once, and see a record that is written then."""
    host, port = url.removeprefix("http://").split(":")
    streams = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"GET /topics/orders/stream HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )
        await reader.readuntil(b": connected\n\n")
        streams.append((reader, writer))
    marker = _produce([{"value": {"marker": "for all"}}])
    await load(url, "marker", lambda _: marker, 1, 1)

    async def sees(reader: asyncio.StreamReader) -> bool:
        try:
            async with asyncio.timeout(120):
                while b"for all" not in await reader.readline():
                    pass
        except TimeoutError:
            return False
        return True

    seen = sum(await asyncio.gather(*(sees(reader) for reader, _ in streams)))
    for _, writer in streams:
        writer.close()
    return seen


async def measure(url: str, *, quick: bool) -> tuple[Figure, int]:
    requests, streams = (50, 20) if quick else (3_000, 1_000)
    body = _produce([{"value": {"number": number, "text": "x" * 80}} for number in range(RECORDS)])
    await load(url, "warm up", lambda _: body, 5, 1)
    figure = await load(url, f"produce, requests of {RECORDS} records", lambda _: body, requests, 16)
    return figure, await _seen(url, streams)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little work: shows that it works, no more")
    arguments = parser.parse_args()
    with servers("rest", "/topics") as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figure, seen = runner.run(measure(url, quick=arguments.quick))
    table = Table("", "figure")
    table.add_row(f"{figure.name}, records a second", f"{figure.per_second * RECORDS:,.0f}")
    table.add_row(f"{figure.name}, p99 ms", f"{figure.p99_ms:.2f}")
    table.add_row("open streams that saw a record", f"{seen:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
