"""Promise: the file formats are Kafka's. Each side reads the other's files."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bench.peers.apache_kafka import DUMP_LOG, ApacheKafka, Unavailable, kafka_jars, run_tool
from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = 400


@pytest.fixture(scope="module", autouse=True)
def apache_kafka_is_there() -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


def produce_with_every_codec(bootstrap_servers: str, topic: str) -> None:
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for number in range(RECORDS):
            producer.produce(
                topic,
                key=f"{codec}-{number}",
                value=os.urandom(1500),
                headers=[("codec", codec.encode())],
            )
        assert producer.flush(30) == 0


def commit(bootstrap_servers: str, topic: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    deadline = time.monotonic() + 30
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
            break
        except KafkaException as refused:
            # The coordinator is not ready yet.
            if refused.args[0].code() != KafkaError.NOT_COORDINATOR or time.monotonic() > deadline:
                raise
    consumer.close()


def committed(bootstrap_servers: str, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    offset: int = found.offset
    return offset


def keys_per_codec(bootstrap_servers: str, topic: str) -> dict[str, list[str]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[str, list[str]] = defaultdict(list)
    while True:
        message = consumer.poll(30)
        assert message is not None, "nothing comes"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            break
        [(_, codec)] = message.headers()
        found[codec.decode()].append(message.key().decode())
    consumer.close()
    return found


def everything() -> dict[str, list[str]]:
    return {codec: [f"{codec}-{number}" for number in range(RECORDS)] for codec in CODECS}


def test_apache_kafka_reads_what_ottla_wrote(tmp_path: Path) -> None:
    with Broker(data=tmp_path, config={"log.segment.bytes": "1048576"}) as broker:
        broker.create_topic("events")
        produce_with_every_codec(broker.bootstrap_servers, "events")
        commit(broker.bootstrap_servers, "events", "g", 17)
    directory = tmp_path / "events-0"
    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 1
    offsets = []
    for log in logs:
        dumped = run_tool(DUMP_LOG, ["--files", str(log), "--print-data-log"]).stdout
        assert "isvalid: false" not in dumped
        offsets += [int(found) for found in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)]
    assert offsets == list(range(RECORDS * len(CODECS)))
    for index in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        dumped = run_tool(DUMP_LOG, ["--files", str(index), "--verify-index-only"])
        assert "Mismatches" not in dumped.stdout + dumped.stderr
        assert "Found timestamp mismatch" not in dumped.stdout
    snapshots = sorted(directory.glob("*.snapshot"))
    assert snapshots
    assert "producerId" in run_tool(DUMP_LOG, ["--files", str(snapshots[-1])]).stdout
    [offsets_log] = [path for path in tmp_path.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    decoded = run_tool(DUMP_LOG, ["--files", str(offsets_log), "--offsets-decoder"]).stdout
    assert '"group":"g"' in decoded
    assert '"offset":17' in decoded


def test_ottla_serves_a_directory_that_apache_kafka_wrote(tmp_path: Path) -> None:
    with ApacheKafka(data=tmp_path / "kafka", config={"num.partitions": "1"}) as kafka:
        produce_with_every_codec(kafka.bootstrap_servers, "events")
        commit(kafka.bootstrap_servers, "events", "g", 17)
        kafka.stop()
        shutil.copytree(kafka.log_dir, tmp_path / "ottla")
    with Broker(data=tmp_path / "ottla", config={"offsets.topic.num.partitions": "50"}) as broker:
        assert keys_per_codec(broker.bootstrap_servers, "events") == everything()
        assert committed(broker.bootstrap_servers, "events", "g") == 17
        # New records follow the old ones.
        assert broker.produce("events", b"new") == RECORDS * len(CODECS)


def test_ottla_recovers_a_directory_of_an_apache_kafka_that_was_killed(tmp_path: Path) -> None:
    with ApacheKafka(data=tmp_path / "kafka", config={"num.partitions": "1"}) as kafka:
        produce_with_every_codec(kafka.bootstrap_servers, "events")
        kafka.kill()
        shutil.copytree(kafka.log_dir, tmp_path / "ottla")
    with Broker(data=tmp_path / "ottla") as broker:
        assert keys_per_codec(broker.bootstrap_servers, "events") == everything()
