"""Apache Kafka's MirrorMaker and ours take turns on the same clusters, and Java translates with our checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing import Broker
from tests.mirror.records import create, rows, until, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.peers

TRANSLATE = """
import json, sys, jpype
classpath, servers, source, group = sys.argv[1:]
jpype.startJVM(classpath=[classpath])
Map, Duration = jpype.JClass("java.util.HashMap"), jpype.JClass("java.time.Duration")
settings = Map()
settings.put("bootstrap.servers", servers)
found = jpype.JClass("org.apache.kafka.connect.mirror.RemoteClusterUtils").translateOffsets(
    settings, source, group, Duration.ofSeconds(30))
print(json.dumps({str(each.getKey()): int(each.getValue().offset()) for each in found.entrySet()}))
"""


@pytest.fixture(scope="module")
def classpath() -> str:
    from bench.peers.apache_kafka import Unavailable, application_classpath

    try:
        return application_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as a, Broker() as b:
        yield a, b


def settings(clusters: tuple[Broker, Broker], topic: str) -> dict[str, str]:
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": clusters[0].bootstrap_servers,
        "B.bootstrap.servers": clusters[1].bootstrap_servers,
        "A->B.enabled": "true",
        "A->B.topics": topic,
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }


@contextmanager
def ours(spark: SparkSession, properties: dict[str, str]) -> Iterator[None]:
    from ottla.mirror.mirror_maker import MirrorMaker
    from ottla.mirror.settings import parse_flows

    maker = MirrorMaker(spark, parse_flows(properties))
    maker.start()
    try:
        yield
    finally:
        maker.stop()


@contextmanager
def apaches(classpath: str, properties: dict[str, str], directory: Path) -> Iterator[None]:
    from bench.peers.apache_kafka import java

    file = directory / "mm2.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in properties.items()))
    with open(directory / "mm2.log", "ab") as log:
        command = [
            java(),
            "-Xmx512m",
            "-cp",
            classpath,
            "org.apache.kafka.connect.mirror.MirrorMaker",
            str(file),
        ]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()  # commits its positions
        process.wait(60)


def test_they_take_turns_without_loss_or_repetition(
    spark: SparkSession, clusters: tuple[Broker, Broker], classpath: str, tmp_path: Path
) -> None:
    a, b = clusters
    create(a, "turns")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers, "linger.ms": 20})
    properties = settings(clusters, "turns")

    def write(part: int) -> None:
        for number in range(500):
            producer.produce("turns", f"{part}-{number}".encode())
        producer.flush()

    turns: list[Callable[[], object]] = [
        lambda: ours(spark, properties),
        lambda: apaches(classpath, properties, tmp_path),
        lambda: ours(spark, properties),
    ]
    for part, turn in enumerate(turns):
        write(part)
        with turn():  # type: ignore[attr-defined]
            until(lambda all=(part + 1) * 500: len(values(b, "A.turns")) >= all, f"part {part}", 150)
    assert values(b, "A.turns") == values(a, "turns")


def test_java_translates_offsets_by_our_checkpoints(
    spark: SparkSession, clusters: tuple[Broker, Broker], classpath: str
) -> None:
    a, b = clusters
    create(a, "moving")
    producer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "moving"})
    producer.init_transactions()
    for number in range(20):
        producer.begin_transaction()
        producer.produce("moving", str(number).encode())
        producer.commit_transaction()
    offsets = [offset for offset, _ in rows(a, "moving")]
    consumer = Consumer({"bootstrap.servers": a.bootstrap_servers, "group.id": "java"})
    consumer.commit(offsets=[TopicPartition("moving", 0, offsets[7])], asynchronous=False)
    consumer.close()
    with ours(spark, settings(clusters, "moving")):
        until(lambda: len(values(b, "A.moving")) == 20, "all records")
        expected = [offset for offset, _ in rows(b, "A.moving")][7]

        def translated() -> dict[str, int]:
            command = [sys.executable, "-c", TRANSLATE, classpath, b.bootstrap_servers, "A", "java"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            found: dict[str, int] = json.loads(done.stdout)
            return found

        until(lambda: values(b, "A.checkpoints.internal"), "a checkpoint")
        until(lambda: translated() == {"A.moving-0": expected}, "the translation", 60)
