"""What metrics cost: the CPU time of a request in a broker with metrics and in one without, and that of a scrape.

One broker is both, by turns of a quarter of a second: see `bench.measuring.switched_broker`. Requests are counted in
any case, so what counting takes is in both.

    python -m bench.metrics [--quick] [--repeat N]

It takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measuring.experiment import run_client, topic_on
from bench.measuring.wire import free_port
from bench.peers.brokers import OttlaBroker
from bench.rows.metadata import leader_port

#: On the hot path metrics may cost two percent.
BUDGET = 1.02
#: Prometheus asks every fifteen unless it is told otherwise.
_SCRAPE_SECONDS = 5.0
_SCRAPES = 20
_WAIT_SECONDS = 10.0


def cpu_seconds(pid: int) -> float:
    """Of the first thread, which is the event loop's."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


class Switched:
    """The broker, and its figures."""

    def __init__(self, directory: Path) -> None:
        self._figures = directory / "figures"
        self._port = free_port()
        command = [sys.executable, "-m", "bench.measuring.switched_broker", str(self._figures)]
        self.broker = OttlaBroker(command, options=["--metrics", f"127.0.0.1:{self._port}"])

    def windows(self) -> dict[str, list[float]]:
        """Of what was done since the last call."""
        self._figures.unlink(missing_ok=True)
        os.kill(self.broker.pid, signal.SIGUSR1)
        deadline = time.monotonic() + _WAIT_SECONDS
        while not self._figures.exists():
            if time.monotonic() > deadline:
                raise RuntimeError("the broker does not say what it measured")
            time.sleep(0.05)
        found: dict[str, list[float]] = json.loads(self._figures.read_text())
        return found

    def scrape_ms(self) -> float:
        """The loop's CPU time for one scrape."""
        used = []
        for _ in range(_SCRAPES):
            before = cpu_seconds(self.broker.pid)
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
                answer.read()
            used.append((cpu_seconds(self.broker.pid) - before) * 1000)
        return statistics.median(used)


def measure(switched: Switched, client: str, count: int, repeat: int) -> dict[str, list[float]]:
    broker = switched.broker
    found: dict[str, list[float]] = {"off": [], "on": []}
    with topic_on(broker, 1) as topic:
        where = {"host": "127.0.0.1", "port": leader_port(broker.bootstrap_servers, topic)}
        more = {"warm_up": 100, "partitions": 1} if client == "round_trip" else {}
        for number in range(repeat + 1):
            run_client(client, **where, topic=topic, size=100, count=count, **more)
            for name, windows in switched.windows().items():
                if number:  # the first one warms up
                    found[name] += windows
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little work: shows that it works, no more")
    parser.add_argument("--repeat", type=int, help="runs of about eight seconds [default: 6]")
    arguments = parser.parse_args()
    count = 40_000 if arguments.quick else 300_000
    repeat = arguments.repeat or (1 if arguments.quick else 6)
    table = Table("", "off", "on", "on ÷ off", "median of pairs", "goal", "")
    rows = (
        ("one-record Produce requests, pipelined", "requests", count),
        ("round trip", "round_trip", count // 6),
    )
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory:
        switched = Switched(Path(directory))
        try:
            switched.broker.start()
            for title, client, number in rows:
                try:
                    found = measure(switched, client, number, repeat)
                except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                    table.add_row(title, "", "", "", "", "", f"not measured: {error}")
                    continue
                off, on = statistics.median(found["off"]), statistics.median(found["on"])
                middle = statistics.median(
                    after / before for before, after in zip(found["off"], found["on"], strict=False)
                )
                table.add_row(
                    f"{title}, µs of CPU per request",
                    f"{off:,.2f}",
                    f"{on:,.2f}",
                    f"{on / off:.3f}",
                    f"{middle:.3f}",
                    f"≤ {BUDGET:.2f}",
                    "met" if middle <= BUDGET else "missed",
                )
            scrape = switched.scrape_ms()
            share = scrape / 1000 / _SCRAPE_SECONDS
            table.add_row(
                f"one scrape, ms of CPU; every {_SCRAPE_SECONDS:.0f} s {share:.2%}", "", f"{scrape:.2f}"
            )
        finally:
            switched.broker.stop()
            switched.broker.remove()
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
