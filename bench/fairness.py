"""How long other clients wait while one client sends the largest request of an API: Ottla beside Apache Kafka.

    python -m bench.fairness [--entries 300000] [--only Metadata,FindCoordinator] [--docs docs/explanation/fairness.md]

Each array of each request is filled in turn, as far as the request stays below 16 MB. Meanwhile a second client, a
process of its own, asks for ApiVersions again and again. The figure is the longest that it waited for an answer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measuring.wire import ask_api_versions, connect
from bench.peers.apache_kafka import ApacheKafka, Unavailable
from bench.peers.brokers import Broker, OttlaBroker, ottla_command
from ottla.broker.apis import served_keys
from ottla.protocol.messages import API_NAMES
from tests.broker.network.large_requests import build, frame, large_requests

MOST_BYTES = 16 * 1024 * 1024 - 1024
GOAL_MS = 100
#: Requests of one broker to another, which a client of Apache Kafka cannot send.
PRIVATE = 10_000
SECONDS = 20.0


def watch(port: int, orders: Connection) -> None:
    """Ask again and again. Whenever told to, report the longest wait since the last report."""
    longest = 0.0
    client: socket.socket | None = None
    while True:
        began = time.perf_counter()
        try:
            client = client or connect("127.0.0.1", port, timeout=SECONDS)
            ask_api_versions(client)
        except OSError:
            client = None
        longest = max(longest, time.perf_counter() - began if client else SECONDS)
        if orders.poll():
            if orders.recv() is None:
                return
            orders.send(longest)
            longest = 0.0
        time.sleep(0.001)


class Watcher:
    def __init__(self, port: int) -> None:
        self._orders, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=watch, args=(port, theirs), daemon=True)
        self._process.start()
        self.longest_ms()

    def longest_ms(self) -> float:
        self._orders.send("report")
        return float(self._orders.recv()) * 1000

    def close(self) -> None:
        self._orders.send(None)
        self._process.join()


def send(port: int, data: bytes) -> str:
    """Send a request and read its response; returns what kept the broker from answering, if anything did."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as sock:
            sock.sendall(data)
            left = struct.unpack(">i", _receive(sock, 4))[0]
            while left:
                left -= len(_receive(sock, min(left, 1 << 20)))
    except TimeoutError:
        return "no answer in time"
    except OSError:
        return "hung up"
    return ""


def _receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return data


def cases(only: set[str], entries: int) -> Iterator[tuple[str, str, bytes, bytes]]:
    """The API, the array that is filled, a small request and the large one."""
    for key in sorted(served_keys()):
        name = API_NAMES[key]
        if key >= PRIVATE or (only and name not in only):
            continue
        for what, version, cls, path in large_requests(key):
            if path is None:
                continue
            sample = len(frame(build(cls, path, 1000), version))
            count = min(entries, 1_000_000, MOST_BYTES * 900 // sample)
            yield name, what, frame(build(cls, path, 1), version), frame(build(cls, path, count), version)


@contextmanager
def brokers() -> Iterator[dict[str, Broker]]:
    """The brokers that could be started, by name."""
    started: dict[str, Broker] = {}
    try:
        started["Ottla"] = OttlaBroker(ottla_command()).start()
        try:
            started["Apache Kafka"] = ApacheKafka().start()
        except Unavailable as reason:
            Console().print(f"Without Apache Kafka: {reason}")
        yield started
    finally:
        for broker in started.values():
            broker.stop()
            broker.remove()


def measure(only: set[str], entries: int) -> Iterator[tuple[str, dict[str, tuple[float, str]]]]:
    """Yield each API with the longest wait of the other client in milliseconds, and in which case, by broker."""
    with brokers() as started:
        watchers = {name: Watcher(broker.port) for name, broker in started.items()}
        for api, requests in groupby(cases(only, entries), key=lambda case: case[0]):
            row: dict[str, tuple[float, str]] = {}
            for _, what, small, large in requests:
                for name, broker in started.items():
                    send(broker.port, small)  # classes are loaded, internal topics are created
                    watchers[name].longest_ms()
                    problem = send(broker.port, large)
                    note = f"{what} ({problem})" if problem else what
                    longest = watchers[name].longest_ms()
                    row[name] = max(row.get(name, (0.0, "")), (longest, note))
                    if longest >= SECONDS * 1000:  # it has died, or has work for minutes
                        broker.stop()
                        broker.start()
                        watchers[name].longest_ms()
            yield api, row
        for watcher in watchers.values():
            watcher.close()


def table(found: dict[str, dict[str, tuple[float, str]]], entries: int) -> Table:
    title = f"Longest wait of another client beside requests of {entries:,} entries, in ms"
    shown = Table(title=title, title_justify="left")
    for column in ("API", "Ottla", "Apache Kafka", "filled"):
        shown.add_column(column, justify="right" if column in ("Ottla", "Apache Kafka") else "left")
    for api, row in found.items():
        shown.add_row(api, *cells(row))
    return shown


def cells(row: dict[str, tuple[float, str]]) -> list[str]:
    times = [f"{row[name][0]:.0f}" if name in row else "—" for name in ("Ottla", "Apache Kafka")]
    return [*times, row["Ottla"][1]]


def write_docs(path: Path, found: dict[str, dict[str, tuple[float, str]]], entries: int) -> None:
    """Replace rows in the table between the marks of a page. Rows of other APIs stay."""
    begin, end = "<!-- fairness -->", "<!-- /fairness -->"
    text = path.read_text()
    shown = text.partition(begin)[2].partition(end)[0].splitlines()
    rows = {line.split("|")[1].strip(): line for line in shown if line.startswith("| ")}
    rows |= {api: f"| {api} | {' | '.join(cells(row))} |" for api, row in found.items()}
    order = [API_NAMES[key] for key in sorted(served_keys())]
    lines = [f"| API | Ottla | Apache Kafka | array of {entries:,} entries |", "|---|---|---|---|"]
    lines += [rows[api] for api in order if api in rows]
    block = "\n".join([begin, *lines, end])
    path.write_text(re.sub(f"{begin}.*{end}", lambda _: block, text, flags=re.DOTALL))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=__doc__)
    parser.add_argument("--entries", type=int, default=300_000, help="Entries of each array (300000)")
    parser.add_argument("--only", default="", help="Names of APIs, separated by commas")
    parser.add_argument("--docs", type=Path, help="Page to write the table to")
    options = parser.parse_args()
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for api, row in measure(set(filter(None, options.only.split(","))), options.entries):
        found[api] = row
        print(api, *cells(row), flush=True)
        if options.docs is not None:
            write_docs(options.docs, found, options.entries)
    Console().print(table(found, options.entries))
    slow = [api for api, row in found.items() if row["Ottla"][0] > GOAL_MS]
    if slow:
        Console().print(f"Above the goal of {GOAL_MS} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
