"""How long pages of the console take on a large cluster, what they ask of a real one, and how long searches take.

    python -m bench.console [--quick] [--topics 2000] [--records 1000000] [--only pages,cluster,search]

- pages: 10,000 topics, 39,000 partitions and 2,000 groups, simulated behind the interface that the console asks.
- cluster: 2,000 topics of a real broker, which counts the requests that a page costs it.
- search: a million records of 1 KB on a real broker, beside Kafka's own `kafka-console-consumer | grep`.

Broker and searches are processes of their own. The full size takes about three minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import httpx
from rich.console import Console as Terminal
from rich.table import Table

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import TOOL_JVM, Unavailable, java, kafka_classpath
from bench.peers.brokers import OttlaBroker, ottla_command
from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster
from ottla.client.produce import produce
from ottla.client.settings import Settings
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.record_format import Record
from tests.console.simulated import SimulatedCluster, simulated_site

TOPICS, PARTITIONS, GROUPS = 10_000, 39_000, 2_000
#: What is looked at, and in how many milliseconds it has to be there.
FIRST, FILTER = 1000, 200
PAGES = (
    ("overview", FIRST), ("topics", FIRST), ("topics?q=events-09", FILTER),
    ("topics?sort=partitions&desc=1", FILTER), ("topics?page=200", FILTER), ("groups", FIRST),
    ("groups?q=19", FILTER), ("heatmap", FIRST), ("topics.json", FIRST),
)  # fmt: skip
REAL_PAGES = (
    ("overview", FIRST),
    ("topics", FIRST),
    ("topics?q=real-01", FILTER),
    ("topics?page=20", FILTER),
)
_NEEDLE = "not-to-be-found"
SEARCHES = (
    ("text", {"q": _NEEDLE, "case": "1"}),
    ("text, any case", {"q": _NEEDLE.upper()}),
    ("regular expression", {"q": f"{_NEEDLE}$", "mode": "regex"}),
    ("Python expression", {"q": "value.id == -1", "mode": "expression"}),
    ("SQL condition", {"q": "value->id = -1", "mode": "sql"}),
)
#: Grep cannot do the others.
_LIKE_GREP = ("text", "text, any case", "regular expression")
_BATCH = 1000
_PARTITIONS = 4
_MEMORY_MB = 2048  # which the process of a search may not exceed
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

Row = tuple[str, str, str, bool | None]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little of everything: shows that it works")
    parser.add_argument("--topics", type=int, default=2_000, help="of the real broker")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1024, help="of a record")
    parser.add_argument("--only", default="pages,cluster,search")
    args = parser.parse_args()
    topics = min(args.topics, 200) if args.quick else args.topics
    records = min(args.records, 20_000) if args.quick else args.records
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "pages": simulated_pages,
        "cluster": lambda: real_pages(topics),
        "search": lambda: searches(records, args.bytes),
    }
    table = Table("what", "measured", "goal", "")
    for name in args.only.split(","):
        try:
            for what, measured, goal, is_met in parts[name.strip()]():
                table.add_row(what, measured, goal, "" if is_met is None else "met" if is_met else "missed")
        except (Unavailable, RuntimeError, OSError, httpx.HTTPError) as error:
            table.add_row(name, f"not measured: {error}", "", "")
        table.add_section()
    Terminal(width=130).print(table)


# -- pages --


def simulated_pages() -> Iterator[Row]:
    cluster = SimulatedCluster(TOPICS, PARTITIONS, GROUPS)
    settings = ConsoleSettings((ClusterSettings("local", {"bootstrap.servers": "nowhere:1"}),), port=0)
    title = f"{TOPICS:,} topics, {PARTITIONS:,} partitions, {GROUPS:,} groups"
    with InBackground(lambda: Console(settings, {"local": simulated_site(cluster)}), "console") as running:
        yield from _timed_pages(running.url, title, PAGES)


def real_pages(topics: int) -> Iterator[Row]:
    port = free_port()
    with _broker("--metrics", f"127.0.0.1:{port}") as broker:
        begun = time.perf_counter()
        make_topics(broker.bootstrap_servers, topics)
        took = time.perf_counter() - begun
        title = f"{topics:,} topics of a broker"
        yield title, f"{took:.1f} s to create them", "", None
        with _console(broker.bootstrap_servers) as url:
            yield from _timed_pages(url, title, REAL_PAGES)
        # Nothing is measured in the background here, so what the broker counts is what the page asks for.
        with _console(broker.bootstrap_servers, refresh_seconds=3600.0, lag_seconds=3600.0) as url:
            httpx.get(f"{url}/clusters/local/topics", timeout=60).raise_for_status()
            for page in ("topics", "topics?q=real-01", "overview"):
                before = requests_of(port)
                httpx.get(f"{url}/clusters/local/{page}", timeout=60).raise_for_status()
                after = requests_of(port)
                asked = {name: count - before.get(name, 0) for name, count in after.items()}
                shown = ", ".join(f"{name} {count}" for name, count in sorted(asked.items()) if count)
                total = sum(asked.values())
                yield f"{title}: requests of one more look at {page}", shown or "none", "≤ 5", total <= 5


def _timed_pages(url: str, title: str, pages: tuple[tuple[str, int], ...]) -> Iterator[Row]:
    # One client for all, as a browser is: to make one takes longer than a page.
    with httpx.Client(base_url=f"{url}/clusters/local/", timeout=60) as http:
        yield from _timed_by(http, title, pages)


def _timed_by(http: httpx.Client, title: str, pages: tuple[tuple[str, int], ...]) -> Iterator[Row]:
    for page, goal in pages:
        times = [_timed(http, page) for _ in range(11)]
        median = statistics.median(times[1:])
        measured = f"first {times[0]:.0f} ms, then {median:.0f} ms"
        yield f"{title}: {page}", measured, f"< {goal:,} ms", max(times[0], median) < goal


def _timed(http: httpx.Client, page: str) -> float:
    begun = time.perf_counter()
    http.get(page).raise_for_status()
    return (time.perf_counter() - begun) * 1000


def make_topics(servers: str, count: int) -> None:
    with closing(Cluster(Settings.from_properties({"bootstrap.servers": servers}))) as cluster:
        for start in range(0, count, 100):
            names = [f"real-{number:04}" for number in range(start, min(start + 100, count))]
            request = CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
                    )
                    for name in names
                ],
                timeout_ms=60_000,
            )
            answer = cluster.any_connection().request(request, CreateTopicsResponse)
            refused = [each for each in answer.topics if each.error_code]
            if refused:
                raise RuntimeError(f"{refused[0].name}: {refused[0].error_message}")


def requests_of(port: int) -> dict[str, int]:
    """How many the broker has answered, by their API."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("kafka_network_requestmetrics_requests_total{"):
            labels, _, value = line.rpartition(" ")
            name = labels.partition('request="')[2].partition('"')[0]
            found[name] = found.get(name, 0) + int(float(value))
    return {name: count for name, count in found.items() if name != "ApiVersions"}


# -- searches --


def searches(records: int, size: int) -> Iterator[Row]:
    title = f"{records:,} records of {size:,} bytes"
    with _broker() as broker:
        _fill(broker.bootstrap_servers, records, size)
        with _console(broker.bootstrap_servers) as url:
            newest = [(label, _first_page(url, query)) for label, query in _near_the_end(records)]
            found = [(label, *_searched(url, query)) for label, query in SEARCHES]
        grep = _grepped(broker.bootstrap_servers, records)
    for label, seconds in newest:
        yield f"{title}: first page, newest first, {label}", f"{seconds:.2f} s", "< 1 s", seconds < 1
    if grep is not None:
        yield f"{title}: kafka-console-consumer | grep", f"{grep:.1f} s", "", None
    for label, seconds, peak in found:
        measured = f"{seconds:.1f} s, {records / seconds:,.0f} records/s, {peak} MB"
        limit = f"< {_MEMORY_MB:,} MB"
        if grep is None or label not in _LIKE_GREP:
            yield f"{title}: {label}", measured, limit, peak < _MEMORY_MB
        else:
            is_met = seconds < grep and peak < _MEMORY_MB
            yield f"{title}: {label}", measured, f"< {grep:.1f} s, {limit}", is_met


def _fill(servers: str, records: int, size: int) -> None:
    with closing(Cluster(Settings.from_properties({"bootstrap.servers": servers}))) as cluster:
        create_topic(cluster, "many", partitions=_PARTITIONS, replication_factor=1)
        rest = b"x" * (size - 24)
        for start in range(0, records, _BATCH):
            count = min(_BATCH, records - start)
            batch = [
                Record(0, 1_700_000_000_000 + start, None, b'{"id": %d, "text": "%s"}' % (start + n, rest))
                for n in range(count)
            ]
            produce(cluster, "many", batch, (start // _BATCH) % _PARTITIONS)


def _near_the_end(records: int) -> list[tuple[str, dict[str, str]]]:
    """Searches that find a page of records among the last two thousand."""
    first = records - 2 * _BATCH
    return [
        ("text", {"q": '"text"'}),
        ("regular expression", {"q": r'"id": \d+5,', "mode": "regex"}),
        ("Python expression", {"q": f"value.id > {first}", "mode": "expression"}),
        ("SQL condition", {"q": f"value->id > {first}", "mode": "sql"}),
    ]


def _first_page(url: str, query: dict[str, str]) -> float:
    """Seconds until 50 hits are there, with the start of the search process."""
    begun = time.perf_counter()
    where = f"{url}/clusters/local/topics/many/messages.json"
    answer = httpx.get(where, params={**query, "limit": "50"}, timeout=None)
    took = time.perf_counter() - begun
    if len(answer.json()["messages"]) != 50:
        raise RuntimeError(answer.text[:200])
    return took


def _searched(url: str, query: dict[str, str]) -> tuple[float, int]:
    """Seconds, and the most memory that the process of the search had, in MB."""
    begun = time.perf_counter()
    where = f"{url}/clusters/local/topics/many/messages/search"
    last, peak = "", 0
    with httpx.stream("GET", where, params={**query, "from": "oldest"}, timeout=None) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                last, peak = line, max(peak, _peak_of_children())
    if "searched" not in last:
        raise RuntimeError(last)
    return time.perf_counter() - begun, peak


def _peak_of_children() -> int:
    """VmHWM of the processes that search for us."""
    found = 0
    for each in os.listdir("/proc"):
        try:
            with open(f"/proc/{each}/cmdline", "rb") as file:
                if b"search_process" not in file.read():
                    continue
            with open(f"/proc/{each}/status") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
        except (OSError, ValueError):
            continue
        if int(fields["PPid"]) == os.getpid():
            found = max(found, int(fields.get("VmHWM", "0 kB").split()[0]) // 1024)
    return found


def _grepped(servers: str, records: int) -> float | None:
    """Kafka's own consumer, and grep; None where there is no Java or no Kafka."""
    try:
        consume = [java(), *TOOL_JVM, "-cp", kafka_classpath(), CONSOLE_CONSUMER]
    except Unavailable as error:
        print(f"Not compared with kafka-console-consumer: {error}")
        return None
    consume += ["--bootstrap-server", servers, "--topic", "many", "--from-beginning"]
    consume += ["--max-messages", str(records)]
    begun = time.perf_counter()
    with subprocess.Popen(consume, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reading:
        done = subprocess.run(["grep", "-c", _NEEDLE], stdin=reading.stdout, capture_output=True, text=True)
    if reading.returncode or done.stdout.strip() != "0":
        raise RuntimeError(f"kafka-console-consumer | grep ended with {reading.returncode}: {done.stdout}")
    return time.perf_counter() - begun


# -- what runs meanwhile --


@contextmanager
def _broker(*options: str) -> Iterator[OttlaBroker]:
    broker = OttlaBroker(ottla_command(), options=options)
    try:
        yield broker.start()
    finally:
        broker.stop()
        broker.remove()


@contextmanager
def _console(servers: str, **settings: float) -> Iterator[str]:
    local = ClusterSettings("local", {"bootstrap.servers": servers})
    given = ConsoleSettings((local,), port=0, **settings)  # type: ignore[arg-type]
    with InBackground(lambda: Console(given), "console") as running:
        yield running.url


if __name__ == "__main__":
    main()
