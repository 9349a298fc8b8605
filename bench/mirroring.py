"""A topic is copied between two brokers, by ours and by MirrorMaker: its first record on the target to its last.

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
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from bench.peers.apache_kafka import Unavailable, application_classpath, java
from ottla.testing.ports import free_ports

PARTITIONS = 4
_RECORD = 1024
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
            "batch.size": 200_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    # Half of it can be compressed.
    noise = [random.Random(number).randbytes(_RECORD // 2) + b"x" * (_RECORD // 2) for number in range(100)]
    for number in range(count):
        producer.produce(topic, noise[number % 100], partition=number % PARTITIONS)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def records_on(servers: str, topic: str) -> int:
    """How many records there are, markers included."""
    # What a transaction has written counts while it is open, or all would appear at once.
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "isolation.level": "read_uncommitted"}
    )
    try:
        if topic not in consumer.list_topics(timeout=30).topics:
            return 0
        places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        return sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in places)
    except KafkaException:  # the topic is being made
        return 0
    finally:
        consumer.close()


def seconds(servers: str, topic: str, count: int) -> float:
    """From the first record that is there to the last."""
    deadline = time.monotonic() + _SECONDS
    began = before = None
    while True:
        found, now = records_on(servers, topic), time.monotonic()
        if found and began is None:
            began, before = now, found
        if found >= count:
            assert began is not None
            assert before is not None
            # What was there at the first look is taken as copied at the same speed.
            return (now - began) * count / max(1, count - before) if before < count else now - began + 0.001
        if now > deadline:
            raise RuntimeError(f"{topic} has {found} of {count} records after {_SECONDS:.0f} s")
        time.sleep(0.05)


def properties(source: str, target: str, topic: str) -> dict[str, str]:
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
            "".join(f"{name} = {value}\n" for name, value in properties(source, target, "events").items())
        )
        with running(command(str(file))):
            return count * _RECORD / 1e6 / seconds(target, "A.events", count)


def measure(*, quick: bool) -> Iterator[Row]:
    for codec in ("none", "lz4"):
        count = 20_000 if quick else 1_000_000
        try:
            theirs: float | None = copy(_apaches, count, codec)
        except Unavailable:
            theirs = None
        yield Row(f"mirroring, 1 KB records, {codec}", "MB/s", copy(_ours, count, codec), theirs, 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="little work: shows that it works, no more")
    arguments = parser.parse_args()
    table = Table("", "unit", "Ottla", "Apache Kafka", "ratio", "target")
    for row in measure(quick=arguments.quick):
        theirs = "-" if row.apache is None else f"{row.apache:,.0f}"
        ratio = "-" if row.apache is None else f"{row.ottla / row.apache:.2f}"
        table.add_row(row.name, row.unit, f"{row.ottla:,.0f}", theirs, ratio, f"≥ {row.target:g}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
