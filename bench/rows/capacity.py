"""What a broker costs before it does anything, and with many connections and many partitions."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring.experiment import Experiment, Figures, Row, RunningClient, Scale, run_client, topic_on
from bench.measuring.limit import TOPIC as LIMIT_TOPIC
from bench.measuring.limit import BareServer
from bench.peers.brokers import Contestant, Fresh, mean_resident_mb, resident_mb
from bench.rows.throughput import throughput


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


def idle_memory() -> Experiment:
    row = Row("resident memory, idle", "MB", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        contestant.shared()
        return {row.name: contestant.idle_mb}

    def limit(server: BareServer, scale: Scale) -> Figures:
        return {row.name: resident_mb(server.pid)}

    return Experiment((row,), measure, limit)


def loaded_memory() -> Experiment:
    row = Row("resident memory, after the load above", "MB", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        broker = contestant.shared()
        if not contestant.loaded:
            throughput(1_000, 16).measure(contestant, scale)
        return {row.name: mean_resident_mb(broker)}

    return Experiment((row,), measure)


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
            warm_up=scale.round_trips * 4,  # the broker is new, and a JVM needs a while
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
    reopen = Row(f"{wanted:,} partitions: reopen, until every leader answers", "s", "lower")

    def measure(contestant: Contestant, scale: Scale) -> Figures:
        with Fresh(contestant) as broker:
            work = {"topic": "many", "partitions": wanted}
            created = run_client("create_topic", bootstrap=broker.bootstrap_servers, **work)["seconds"]
            broker.stop()
            watcher = RunningClient("served", bootstrap=broker.bootstrap_servers, **work)
            began = time.monotonic()
            try:
                broker.start()
            except BaseException:
                watcher.stop()
                raise
            return {create.name: created, reopen.name: watcher.figures()["at"] - began}

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
