"""How long pages of the console take on a large cluster, and a search of many records: `python -m bench.console`.

The large cluster is simulated behind the interface that the console asks; the search reads from a real broker.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from ottla.client.cluster import Cluster
from ottla.client.produce import produce
from ottla.client.settings import Settings
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.protocol.record_format import Record
from ottla.testing import Broker
from tests.console.simulated import SimulatedCluster, simulated_site

TOPICS, PARTITIONS, GROUPS = 10_000, 39_000, 2_000
PAGES = (
    "overview", "topics", "topics?q=events-09", "topics?sort=partitions&desc=1", "topics?page=200",
    "groups", "groups?q=19", "heatmap", "topics.json",
)  # fmt: skip
_BATCH = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1024)
    args = parser.parse_args()
    print(f"{TOPICS:,} topics, {PARTITIONS:,} partitions, {GROUPS:,} groups\n")
    print("| page | first (ms) | median of 10 (ms) |\n|---|---:|---:|")
    with large_console() as url:
        for page in PAGES:
            times = [_timed(f"{url}/clusters/local/{page}") for _ in range(11)]
            print(f"| {page} | {times[0]:.0f} | {statistics.median(times[1:]):.0f} |")
    print(f"\n{args.records:,} records of {args.bytes:,} bytes\n")
    print("| search | seconds | records/s |\n|---|---:|---:|")
    with filled_console(args.records, args.bytes) as url:
        for label, query in (
            ("text", {"q": "not-to-be-found"}),
            ("text, any case", {"q": "NOT-to-be-found"}),
            ("regular expression", {"q": "not-to-be-found$", "mode": "regex"}),
            ("expression", {"q": "value.id == -1", "mode": "expression"}),
        ):
            seconds = _searched(url, {"case": "1" if label == "text" else "", **query})
            print(f"| {label} | {seconds:.1f} | {args.records / seconds:,.0f} |")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"\nThe process of the search had at most {peak} MB.")


@contextmanager
def large_console() -> Iterator[str]:
    cluster = SimulatedCluster(TOPICS, PARTITIONS, GROUPS)
    settings = ConsoleSettings((ClusterSettings("local", {"bootstrap.servers": "nowhere:1"}),), port=0)
    with InBackground(lambda: Console(settings, {"local": simulated_site(cluster)}), "console") as running:
        yield running.url


@contextmanager
def filled_console(records: int, size: int) -> Iterator[str]:
    with Broker() as broker:
        broker.create_topic("many", 4)
        cluster = Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
        for start in range(0, records, _BATCH):
            batch = [
                Record(
                    0,
                    1_700_000_000_000 + start,
                    None,
                    b'{"id": %d, "text": "%s"}' % (start + n, b"x" * (size - 24)),
                )
                for n in range(min(_BATCH, records - start))
            ]
            produce(cluster, "many", batch, (start // _BATCH) % 4)
        cluster.close()
        local = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers})
        with InBackground(lambda: Console(ConsoleSettings((local,), port=0)), "console") as running:
            yield running.url


def _timed(url: str) -> float:
    begun = time.perf_counter()
    httpx.get(url, timeout=60).raise_for_status()
    return (time.perf_counter() - begun) * 1000


def _searched(url: str, query: dict[str, str]) -> float:
    begun = time.perf_counter()
    where = f"{url}/clusters/local/topics/many/messages/search"
    with httpx.stream("GET", where, params={**query, "from": "oldest"}, timeout=None) as answer:
        last = [line for line in answer.iter_lines() if line.startswith("data: ")][-1]
    assert "searched" in last, last
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
