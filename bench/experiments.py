"""What is measured, row by row.

An experiment measures one or more rows of the table on one broker, in one go. The driver runs it on Ottla
and on Apache Kafka in turn, several times, and on the machine's limit where that means something.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.apache_kafka import CONSUMER_PERFORMANCE, PRODUCER_PERFORMANCE, run_tool
from bench.brokers import Broker, Contestant, Fresh, resident_mb
from bench.figures import Better
from bench.limit import TOPIC as LIMIT_TOPIC
from bench.limit import BareServer
from bench.topics import create_topic, delete_topic, wait_until_served

Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    better: Better = "higher"


@dataclass(frozen=True)
class Scale:
    """How much work a row does. `quick` shows that everything works; its figures mean little."""

    megabytes: int = 256
    small_record_megabytes: int = 64
    java_megabytes: int = 256
    requests: int = 100_000
    round_trips: int = 10_000
    end_to_end: int = 2_000
    drain_batches: int = 128
    connections: int = 5_000
    partitions: int = 1_000
    many_partitions: int = 2_000

    @classmethod
    def quick(cls) -> Scale:
        return cls(16, 4, 16, 4_000, 500, 100, 16, 500, 100, 200)


@dataclass(frozen=True)
class Experiment:
    rows: tuple[Row, ...]
    measure: Callable[[Contestant, Scale], Figures]
    limit: Callable[[BareServer, Scale], Figures] | None = None
    # None: every contestant; else only the named one can be measured this way.
    only: str | None = None

    def wanted(self, patterns: list[str]) -> bool:
        return any(matches(row.name, patterns) for row in self.rows)


def matches(name: str, patterns: list[str]) -> bool:
    """A pattern is a part of the row's name, or a shell pattern for all of it; no pattern means every row."""
    name = name.lower()
    return not patterns or any(
        pattern.lower() in name or fnmatch.fnmatchcase(name, pattern.lower()) for pattern in patterns
    )


def run_client(client: str, *, timeout: float = 600, **arguments: Any) -> Figures:
    """Run one of `bench.clients` in a process of its own and return its figures."""
    command = [sys.executable, "-m", "bench.clients", client, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{client}: {_last_line(done.stderr)}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


_numbers = count(1)


@contextmanager
def topic_on(broker: Broker, partitions: int) -> Iterator[str]:
    name = f"bench-{next(_numbers)}"
    create_topic(broker.bootstrap_servers, name, partitions)
    try:
        yield name
    finally:
        delete_topic(broker.bootstrap_servers, name)


# Throughput -------------------------------------------------------------------------------------------


def bytes_text(size: int) -> str:
    return f"{size} B" if size < 1_000 else f"{size // 1_000} KB"


def throughput(size: int, partitions: int) -> Experiment:
    label = f"{bytes_text(size)}, {partitions} partition{'s' if partitions > 1 else ''}"
    produce = Row(f"produce {label}", "MB/s")
    consume = Row(f"consume {label}", "MB/s")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        contestant.loaded = True
        megabytes = scale.small_record_megabytes if size < 1_000 else scale.megabytes
        work = {"bootstrap": broker.bootstrap_servers, "size": size, "partitions": partitions}
        with topic_on(broker, partitions) as topic:
            records = megabytes * 1_000_000 // size
            produced = run_client(
                "produce_confluent", topic=topic, records=records, round_bytes=64_000_000, **work
            )
            consumed = run_client("consume_confluent", topic=topic, records=int(produced["records"]), **work)
        return {produce.name: produced["mb_per_s"], consume.name: consumed["mb_per_s"]}

    def limit(server: BareServer, scale: Scale) -> Figures:
        return {
            produce.name: server.write_mb_per_s(scale.megabytes * 1_000_000),
            consume.name: server.read_mb_per_s(scale.megabytes * 1_000_000),
        }

    return Experiment((produce, consume), measure, limit)


def java_throughput(size: int = 1_000) -> Experiment:
    produce = Row(f"produce {bytes_text(size)}, Kafka's perf tool", "MB/s")
    consume = Row(f"consume {bytes_text(size)}, Kafka's perf tool", "MB/s")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        contestant.loaded = True
        records = scale.java_megabytes * 1_000_000 // size
        bootstrap = ["--bootstrap-server", broker.bootstrap_servers]
        with topic_on(broker, 1) as topic:
            work = ["--topic", topic, "--num-records", str(records), "--record-size", str(size)]
            tuned = ["acks=all", "linger.ms=5", "batch.size=1000000", "buffer.memory=134217728"]
            said = run_tool(
                PRODUCER_PERFORMANCE,
                [*bootstrap, *work, "--throughput", "-1", "--command-property", *tuned],
            ).stdout
            produced = produced_per_second(said) * size / 1e6
            # The tool counts what poll() returned, which can pass the wanted number: it has none to spare.
            said = run_tool(
                CONSUMER_PERFORMANCE, [*bootstrap, "--topic", topic, "--num-records", str(records)]
            ).stdout
            consumed = fetched_per_second(said) * size / 1e6
        return {produce.name: produced, consume.name: consumed}

    def limit(server: BareServer, scale: Scale) -> Figures:
        return {
            produce.name: server.write_mb_per_s(scale.megabytes * 1_000_000),
            consume.name: server.read_mb_per_s(scale.megabytes * 1_000_000),
        }

    return Experiment((produce, consume), measure, limit)


def produced_per_second(said: str) -> float:
    """Records a second from the last summary of ProducerPerformance."""
    for line in reversed(said.splitlines()):
        if "records sent" in line and "records/sec" in line:
            return float(line.split(" records/sec")[0].rsplit(" ", 1)[1].replace(",", ""))
    raise RuntimeError(f"ProducerPerformance said: {_last_line(said)}")


def fetched_per_second(said: str) -> float:
    """Records a second while fetching, without the time to join the group, from ConsumerPerformance."""
    lines = [line.split(", ") for line in said.splitlines() if ", " in line]
    for names, values in pairwise(lines):
        if "fetch.nMsg.sec" in names and len(names) == len(values):
            return float(values[names.index("fetch.nMsg.sec")])
    raise RuntimeError(f"ConsumerPerformance said: {_last_line(said)}")


# Requests and latency ---------------------------------------------------------------------------------


def one_record_requests() -> Experiment:
    row = Row("one-record Produce requests, pipelined", "requests/s")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        with topic_on(broker, 1) as topic:
            work = {"host": "127.0.0.1", "port": broker.port, "topic": topic, "size": 100}
            figures = run_client("requests", count=scale.requests, **work)
        return {row.name: figures["requests_per_s"]}

    def limit(server: BareServer, scale: Scale) -> Figures:
        figures = run_client(
            "requests", host="127.0.0.1", port=server.port, topic=LIMIT_TOPIC, count=scale.requests, size=100
        )
        return {row.name: figures["requests_per_s"]}

    return Experiment((row,), measure, limit)


@contextmanager
def full_speed_consumer(broker: Broker, scale: Scale) -> Iterator[None]:
    """Another process that reads a topic of its own as fast as the broker hands it out."""
    with topic_on(broker, 1) as topic:
        work = {"host": "127.0.0.1", "port": broker.port, "topic": topic, "batches": scale.drain_batches}
        run_client("fill", **work)
        reader = subprocess.Popen(
            [sys.executable, "-m", "bench.clients", "drain", json.dumps(work)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout is not None
        try:
            if reader.stdout.readline().strip() != "ready":
                raise RuntimeError(f"the full-speed consumer: {_last_line(reader.communicate()[1])}")
            yield
            if reader.poll() is not None:
                raise RuntimeError(f"the full-speed consumer ended: {_last_line(reader.communicate()[1])}")
        finally:
            reader.terminate()
            reader.communicate()


@contextmanager
def alone(broker: Broker, scale: Scale) -> Iterator[None]:
    yield


def round_trip(under_load: bool) -> Experiment:
    suffix = " beside a full-speed consumer" if under_load else ""
    p50 = Row(f"round trip of a one-record Produce{suffix}, p50", "µs", "lower")
    p99 = Row(f"round trip of a one-record Produce{suffix}, p99", "µs", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        beside = full_speed_consumer if under_load else alone
        with topic_on(broker, 1) as topic, beside(broker, scale):
            return named(p50, p99, _round_trip(broker.port, topic, scale, 1))

    def limit(server: BareServer, scale: Scale) -> Figures:
        return named(p50, p99, _round_trip(server.port, LIMIT_TOPIC, scale, 1))

    return Experiment((p50, p99), measure, limit)


def _round_trip(port: int, topic: str, scale: Scale, partitions: int) -> Figures:
    work = {"count": scale.round_trips, "warm_up": scale.round_trips // 5, "size": 100}
    return run_client("round_trip", host="127.0.0.1", port=port, topic=topic, partitions=partitions, **work)


def named(p50: Row, p99: Row, figures: Figures) -> Figures:
    return {p50.name: figures["p50_us"], p99.name: figures["p99_us"]}


def end_to_end(under_load: bool) -> Experiment:
    suffix = " beside a full-speed consumer" if under_load else ""
    p50 = Row(f"produce → consume latency{suffix}, p50", "µs", "lower")
    p99 = Row(f"produce → consume latency{suffix}, p99", "µs", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        beside = full_speed_consumer if under_load else alone
        with topic_on(broker, 1) as topic, beside(broker, scale):
            work = {"count": scale.end_to_end, "warm_up": scale.end_to_end // 5, "size": 100}
            figures = run_client("end_to_end", bootstrap=broker.bootstrap_servers, topic=topic, **work)
        return named(p50, p99, figures)

    def limit(server: BareServer, scale: Scale) -> Figures:
        return named(p50, p99, _round_trip(server.port, LIMIT_TOPIC, scale, 1))

    return Experiment((p50, p99), measure, limit)


# Start and memory -------------------------------------------------------------------------------------


def start_up() -> Experiment:
    row = Row("start until ApiVersions is answered", "s", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        with Fresh(contestant) as broker:
            return {row.name: broker.startup_seconds}

    def limit(server: BareServer, scale: Scale) -> Figures:
        with BareServer() as another:
            return {row.name: another.startup_seconds}

    return Experiment((row,), measure, limit)


def embedded() -> Experiment:
    row = Row("embedded broker: enter `with Broker()`", "s", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        return {row.name: run_client("embedded")["seconds"]}

    return Experiment((row,), measure, only="Ottla")


def memory() -> Experiment:
    idle = Row("resident memory, idle", "MB", "lower")
    loaded = Row("resident memory, after the load above", "MB", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        if not contestant.loaded:
            throughput(1_000, 16).measure(contestant, scale)
        return {idle.name: contestant.idle_mb, loaded.name: resident_mb(broker.pid)}

    def limit(server: BareServer, scale: Scale) -> Figures:
        return {idle.name: resident_mb(server.pid)}

    return Experiment((idle, loaded), measure, limit)


# Many of a thing --------------------------------------------------------------------------------------


def many_connections(wanted: int) -> Experiment:
    opened = Row(f"{wanted:,} connections: open all, ApiVersions on each", "s", "lower")
    resident = Row(f"{wanted:,} connections: resident memory", "MB", "lower")
    p99 = Row(f"{wanted:,} connections: round trip on one of them, p99", "µs", "lower")

    def figures(port: int, pid: int, topic: str, scale: Scale) -> Figures:
        got = run_client(
            "connections",
            host="127.0.0.1",
            port=port,
            pid=pid,
            topic=topic,
            count=wanted,
            round_trips=scale.round_trips,
        )
        return {opened.name: got["seconds"], resident.name: got["resident_mb"], p99.name: got["p99_us"]}

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        with Fresh(contestant) as broker, topic_on(broker, 1) as topic:
            return figures(broker.port, broker.pid, topic, scale)

    def limit(server: BareServer, scale: Scale) -> Figures:
        return figures(server.port, server.pid, LIMIT_TOPIC, scale)

    return Experiment((opened, resident, p99), measure, limit)


def many_partitions(wanted: int) -> Experiment:
    create = Row(f"{wanted:,} partitions: create a topic with them", "s", "lower")
    reopen = Row(f"{wanted:,} partitions: restart until every leader answers", "s", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        with Fresh(contestant) as broker:
            began = time.perf_counter()
            create_topic(broker.bootstrap_servers, "many", wanted)
            created = time.perf_counter() - began
            broker.stop()
            began = time.perf_counter()
            broker.start()
            wait_until_served(broker.bootstrap_servers, "many", wanted)
            return {create.name: created, reopen.name: time.perf_counter() - began}

    def limit(server: BareServer, scale: Scale) -> Figures:
        with TemporaryDirectory(prefix="ottla-bench-limit-") as directory:
            began = time.perf_counter()
            files = bare_partitions(Path(directory), wanted)
            created = time.perf_counter() - began
            began = time.perf_counter()
            for path in files:
                with open(path, "rb") as file:
                    file.read()
            return {create.name: created, reopen.name: time.perf_counter() - began}

    return Experiment((create, reopen), measure, limit)


def bare_partitions(directory: Path, partitions: int) -> list[Path]:
    """The directories and files of as many empty partitions, made by nothing but the file system."""
    files = []
    for partition in range(partitions):
        folder = directory / f"many-{partition}"
        folder.mkdir()
        for suffix in (".log", ".index", ".timeindex"):
            path = folder / f"{0:020d}{suffix}"
            path.touch()
            files.append(path)
    return files


def flat_latency(wanted: int) -> Experiment:
    few = Row("round trip with 1 partition on the broker, p50", "µs", "lower")
    many = Row(f"round trip over {wanted:,} partitions, p50", "µs", "lower")
    growth = Row(f"round trip, {wanted:,} partitions ÷ 1 partition", "times", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        with Fresh(contestant) as broker:
            with topic_on(broker, 1) as topic:
                _round_trip(broker.port, topic, scale, 1)  # both figures from a warm broker
                one = _round_trip(broker.port, topic, scale, 1)["p50_us"]
            create_topic(broker.bootstrap_servers, "many", wanted)
            all_of_them = _round_trip(broker.port, "many", scale, wanted)["p50_us"]
        return {few.name: one, many.name: all_of_them, growth.name: all_of_them / one}

    def limit(server: BareServer, scale: Scale) -> Figures:
        one = _round_trip(server.port, LIMIT_TOPIC, scale, 1)["p50_us"]
        return {few.name: one, many.name: one}

    return Experiment((few, many, growth), measure, limit)


def every_experiment(scale: Scale) -> list[Experiment]:
    """In the order of the table; shared brokers are loaded before their memory is read."""
    return [
        *(throughput(size, partitions) for size in (100, 1_000, 10_000) for partitions in (1, 16)),
        java_throughput(),
        one_record_requests(),
        round_trip(under_load=False),
        round_trip(under_load=True),
        end_to_end(under_load=False),
        end_to_end(under_load=True),
        memory(),
        start_up(),
        embedded(),
        many_connections(scale.connections),
        many_partitions(scale.partitions),
        flat_latency(scale.many_partitions),
    ]


def chosen_experiments(scale: Scale, patterns: list[str]) -> list[Experiment]:
    return [experiment for experiment in every_experiment(scale) if experiment.wanted(patterns)]
