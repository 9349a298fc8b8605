"""A topic is copied between two brokers of ours, by our mirror and by MirrorMaker 4.3, one after the other.

Both have the same file of settings, the same topic (four partitions, batches of up to 200 KB) and two tasks, and both
write batches of that size with the codec of the source. The clock runs from the first record that the target has to
the moment when all of them can be read by consumers who read committed: neither start-up counts, and the commit of our
transaction does.

.venv/bin/python -m bench.mirroring --quick
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench.peers.apache_kafka import Unavailable, application_classpath, java
from ottla.client.cluster import Cluster
from ottla.client.cluster import TopicPartition as Place
from ottla.client.errors import ClientError
from ottla.client.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from ottla.client.settings import Settings
from ottla.testing.ports import free_ports

PARTITIONS = 4
_RECORD = 1024
_BATCH = 200_000
_SECONDS = 600.0


class Row(NamedTuple):
    name: str
    unit: str
    ottla: float
    apache: float | None
    target: float


@contextmanager
def brokers() -> Iterator[tuple[str, str]]:
    """Two brokers, a process each."""
    with tempfile.TemporaryDirectory() as directory:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "ottla",
                    "start",
                    "--quiet",
                    "--listen",
                    each,
                    "--data",
                    f"{directory}/{number}",
                ]
            )
            for number, each in enumerate(addresses)
        ]
        try:
            for each in addresses:
                AdminClient({"bootstrap.servers": each}).list_topics(timeout=30)
            yield addresses[0], addresses[1]
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


def write(servers: str, topic: str, count: int, codec: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.size": _BATCH,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    # lz4 makes about a fifth of it.
    noise = [random.Random(number).randbytes(_RECORD // 2) + b"x" * (_RECORD // 2) for number in range(100)]
    for number in range(count):
        producer.produce(topic, noise[number % 100], partition=number % PARTITIONS)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


class Ends:
    """How many records a topic of the target has, markers included."""

    def __init__(self, servers: str, topic: str) -> None:
        self._cluster = Cluster(Settings.from_properties({"bootstrap.servers": servers}))
        self._topic = topic
        self._places = dict.fromkeys((Place(topic, each) for each in range(PARTITIONS)), LATEST)

    def close(self) -> None:
        self._cluster.close()

    def count(self, isolation_level: int) -> int:
        try:
            if self._topic not in self._cluster.topics([self._topic]):
                return 0
            found = list_offsets(self._cluster, self._places, isolation_level)
        except ClientError:  # the topic is being made
            return 0
        return sum(each.offset for each in found.values())


def seconds(servers: str, topic: str, count: int) -> float:
    """From the first record that is there to the moment when all are committed."""
    deadline = time.monotonic() + _SECONDS
    with closing(Ends(servers, topic)) as ends:
        while not (before := ends.count(READ_UNCOMMITTED)):
            _wait(deadline, f"{topic} has no records")
        began = time.monotonic()
        while (found := ends.count(READ_COMMITTED)) < count:
            _wait(deadline, f"{topic} has {found} of {count} records")
        taken = max(time.monotonic() - began, 0.001)
    # What was there at the first look is taken as copied at the same speed.
    return taken * count / (count - before) if before < count else taken


def _wait(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise RuntimeError(f"{what} after {_SECONDS:.0f} s")
    time.sleep(0.02)


def properties(source: str, target: str, topic: str, codec: str) -> dict[str, str]:
    ones = (
        "checkpoints.topic",
        "heartbeats.topic",
        "offset-syncs.topic",
        "offset.storage",
        "status.storage",
        "config.storage",
    )
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "A->B.topics": topic,
        "tasks.max": "2",
        # MirrorMaker decodes what it reads and makes batches of its own: without these, of 16 KB and not compressed.
        "B.producer.compression.type": codec,
        "B.producer.batch.size": str(_BATCH),
        "B.producer.linger.ms": "20",
        "replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        **{f"{name}.replication.factor": "1" for name in ones},
    }


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ours(file: str) -> list[str]:
    return [sys.executable, "-m", "ottla", "mirror", "start", file, "--quiet"]


def _apaches(file: str) -> list[str]:
    return [
        java(),
        "-Xmx1g",
        "-cp",
        application_classpath(),
        "org.apache.kafka.connect.mirror.MirrorMaker",
        file,
    ]


def copy(command: Callable[[str], list[str]], count: int, codec: str) -> float:
    """Megabytes a second."""
    with brokers() as (source, target), tempfile.TemporaryDirectory() as directory:
        write(source, "events", count, codec)
        file = Path(directory) / "mm2.properties"
        file.write_text(
            "".join(
                f"{name} = {value}\n" for name, value in properties(source, target, "events", codec).items()
            )
        )
        with running(command(str(file))):
            return count * _RECORD / 1e6 / seconds(target, "A.events", count)


def measure(count: int, repeat: int) -> Iterator[Row]:
    """The best of several runs, each of which takes only seconds: disks of others disturb them."""
    for codec in ("none", "lz4"):
        ours, theirs = [], []
        for _ in range(repeat):
            with suppress(Unavailable):
                theirs.append(copy(_apaches, count, codec))
            ours.append(copy(_ours, count, codec))
        yield Row(f"mirroring, 1 KB records, {codec}", "MB/s", max(ours), max(theirs, default=None), 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little work: shows that it works, no more")
    parser.add_argument("--records", type=int, default=1_000_000, help="of 1 KB each [default: 1000000]")
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs of each, of which the best counts [default: 3]"
    )
    arguments = parser.parse_args()
    table = Table("", "unit", "Ottla", "Apache Kafka", "ratio", "target")
    count, repeat = (20_000, 1) if arguments.quick else (arguments.records, arguments.repeat)
    for row in measure(count, repeat):
        theirs = "-" if row.apache is None else f"{row.apache:,.0f}"
        ratio = "-" if row.apache is None else f"{row.ottla / row.apache:.2f}"
        table.add_row(row.name, row.unit, f"{row.ottla:,.0f}", theirs, ratio, f"≥ {row.target:g}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
