"""``python -m bench.connect``: connectors on Ottla's workers beside Kafka's own Connect, in one table.

Both use the same broker, which is Ottla in a process of its own. A connector runs and has handled one record when the
clock starts: what is measured is how fast it handles the rest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers.apache_kafka import Unavailable, application_classpath
from bench.peers.brokers import OttlaBroker, ottla_command
from bench.peers.kafka_connect import ConnectWorker, KafkaConnect, OttlaConnect
from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import LATEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings, parse_servers

OURS, THEIRS = "Ottla", "Kafka's Connect"

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "hoist",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
}
_LINE = "x" * 99 + "\n"
_SECONDS = 600.0


@dataclass(frozen=True)
class Bench:
    worker: ConnectWorker
    cluster: Cluster
    directory: Path
    name: str  # of this measurement: of its connector, topic and file
    lines: int


def _await(condition: Callable[[], bool], worker: ConnectWorker, name: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name}: {worker.status(name)}")
        time.sleep(0.01)


def source(bench: Bench, settings: Mapping[str, str]) -> float:
    """Records a second from a file that grows all at once."""
    file = bench.directory / bench.name
    file.write_text(_LINE)
    create_topic(bench.cluster, bench.name, partitions=1, replication_factor=1)
    partition = TopicPartition(bench.name, 0)

    def end() -> int:
        return list_offsets(bench.cluster, {partition: LATEST}, READ_COMMITTED)[partition].offset

    bench.worker.put(
        {
            "name": bench.name,
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(file),
            "topic": bench.name,
            **settings,
        }
    )
    _await(lambda: end() > 0, bench.worker, bench.name)
    with file.open("a") as more:
        began = time.perf_counter()
        more.write(_LINE * bench.lines)
    # Markers of transactions have offsets, too: so the last records may come a little later than this.
    _await(lambda: end() > bench.lines, bench.worker, bench.name)
    return bench.lines / (time.perf_counter() - began)


def sink(bench: Bench, settings: Mapping[str, str]) -> float:
    """Records a second from a topic to a file, with the start of the connector left out by its first record."""
    filling = Bench(bench.worker, bench.cluster, bench.directory, f"{bench.name}-fill", bench.lines)
    source(filling, {})
    file = bench.directory / f"{bench.name}.out"
    bench.worker.put(
        {
            "name": bench.name,
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(file),
            "topics": filling.name,
            **settings,
        }
    )
    _await(lambda: file.exists() and file.stat().st_size > 0, bench.worker, bench.name)
    before, began = file.stat().st_size, time.perf_counter()
    size = len(_LINE) * (bench.lines + 1)
    _await(lambda: file.stat().st_size >= size, bench.worker, bench.name)
    return (size - before) / len(_LINE) / (time.perf_counter() - began)


ROWS: dict[str, Callable[[Bench], float]] = {
    "file to topic, String": lambda bench: source(bench, {}),
    "file to topic, HoistField and JSON": lambda bench: source(bench, _JSON),
    "topic to file, String": lambda bench: sink(bench, {}),
}


def settings(who: str, bootstrap_servers: str) -> dict[str, str]:
    name = "ours" if who == OURS else "theirs"
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": name,
        "key.converter": _STRING,
        "value.converter": _STRING,
        "offset.flush.interval.ms": "1000",
        "connector.file.directories": "/",
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.connect", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="few records: shows that it works, no more")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has this in it")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="repetitions (default 3)")
    options = parser.parse_args()
    lines = 20_000 if options.quick else 1_000_000
    console = Console()
    try:
        application_classpath()
    except Unavailable as reason:
        console.print(str(reason))
        return 1
    best: dict[tuple[str, str], float] = {}
    broker = OttlaBroker(ottla_command())
    with tempfile.TemporaryDirectory(prefix="bench-connect-") as name:
        directory = Path(name)
        broker.start()
        try:
            cluster = Cluster(Settings(parse_servers(broker.bootstrap_servers)))
            for who, start in ((OURS, OttlaConnect), (THEIRS, KafkaConnect)):
                with start(directory, settings(who, broker.bootstrap_servers)) as worker:
                    for row, measure in ROWS.items():
                        for number in range(options.repeat if options.only in row else 0):
                            called = f"{'ours' if who == OURS else 'theirs'}-{list(ROWS).index(row)}-{number}"
                            console.print(f"{row}: {who}, {number + 1} of {options.repeat}", style="dim")
                            value = measure(Bench(worker, cluster, directory, called, lines))
                            best[row, who] = max(best.get((row, who), 0.0), value)
            cluster.close()
        finally:
            broker.stop()
            broker.remove()
    table = Table("", OURS, THEIRS, "ratio", title="Connectors, records a second (best of all)")
    for row in ROWS:
        ours, theirs = best.get((row, OURS)), best.get((row, THEIRS))
        if ours and theirs:
            table.add_row(row, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}")
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
