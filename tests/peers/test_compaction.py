"""Promise: a log compacted by Ottla is one that Apache Kafka could have compacted."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers.apache_kafka import DUMP_LOG, ApacheKafka, Unavailable, kafka_jars, run_tool
from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

TOPIC = "compacted"
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.bytes": "1048576"}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
KEYS = 300

RECORD = r"^\| offset: (\d+)(?!.*endTxnMarker)"

Found = list[tuple[int, bytes, bytes | None]]


@pytest.fixture(scope="module", autouse=True)
def apache_kafka_is_there() -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


def produce(bootstrap_servers: str) -> None:
    """Write several megabytes of a few keys: tombstones, every codec, idempotent producers, transactions."""
    produce_in_transactions(bootstrap_servers)
    for at, codec in enumerate(CODECS * 2):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.num.messages": 50,
            }
        )
        for number in range(3000):
            key = (number * 7 + at) % KEYS
            value = None if (number + at) % 11 == 0 else b"%d-%d-" % (at, number) + bytes(range(256)) * 2
            producer.produce(TOPIC, key=b"%d" % key, value=value)
        assert producer.flush(30) == 0


def produce_in_transactions(bootstrap_servers: str) -> None:
    """Write separate keys, so that some committed records stay; every third transaction is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "t", "linger.ms": 5})
    producer.init_transactions()
    for number in range(60):
        producer.begin_transaction()
        for at in range(20):
            producer.produce(TOPIC, key=b"t%d" % ((number * 3 + at) % 50), value=b"%d" % number)
        producer.flush()
        if number % 3 == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def read(bootstrap_servers: str) -> Found:
    """Return all records, committed or not."""
    consumer = Consumer(
        {
            "isolation.level": "read_uncommitted",
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: Found = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "nothing comes"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def cleaned_up_to(data: Path) -> int:
    checkpoint = data / "cleaner-offset-checkpoint"
    found = (
        re.search(rf"^{TOPIC} 0 (\d+)$", checkpoint.read_text(), re.MULTILINE)
        if checkpoint.exists()
        else None
    )
    return int(found[1]) if found else 0


def last_base(data: Path) -> int:
    return max(int(path.stem) for path in (data / f"{TOPIC}-0").glob("*.log"))


def test_kafka_and_ottla_compact_the_same_log_to_the_same_records(tmp_path: Path) -> None:
    ottla = tmp_path / "ottla"
    with Broker(data=ottla, config={"log.cleaner.enable": "false"}) as broker:
        broker.create_topic(TOPIC, config=CONFIG)
        produce(broker.bootstrap_servers)
    end = last_base(ottla)
    before = tmp_path / "before"
    shutil.copytree(ottla / f"{TOPIC}-0", before)

    with Broker(data=ottla, config={"log.cleaner.backoff.ms": "50"}) as broker:
        until(lambda: cleaned_up_to(ottla) >= end)
        ours = read(broker.bootstrap_servers)
        assert not broker.cleaner_status().uncleanable
    assert len(ours) < 15_000

    horizons = 0
    for log in sorted((ottla / f"{TOPIC}-0").glob("*.log")):
        dumped = run_tool(DUMP_LOG, ["--files", str(log), "--print-data-log"]).stdout
        assert "isvalid: false" not in dumped
        horizons += dumped.count("deleteHorizonMs: OptionalLong[")
        offsets = [int(offset) for offset in re.findall(RECORD, dumped, re.MULTILINE)]
        assert offsets == [offset for offset, _, _ in ours if offset in set(offsets)]
    assert horizons
    for index in [*(ottla / f"{TOPIC}-0").glob("*.index"), *(ottla / f"{TOPIC}-0").glob("*.timeindex")]:
        dumped = run_tool(DUMP_LOG, ["--files", str(index), "--verify-index-only"])
        assert "Mismatches" not in dumped.stdout + dumped.stderr

    kafka = ApacheKafka(data=tmp_path / "kafka", config={"log.cleaner.backoff.ms": "200"})
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result()
    put_into(kafka, before)
    with kafka:
        until(lambda: cleaned_up_to(kafka.log_dir) >= end)
        theirs = read(kafka.bootstrap_servers)
    assert ours == theirs

    # Kafka continues where Ottla stopped.
    put_into(kafka, ottla / f"{TOPIC}-0")
    with kafka:
        assert read(kafka.bootstrap_servers) == ours


def put_into(kafka: ApacheKafka, source: Path) -> None:
    """Replace the segments of a stopped Kafka's topic with another topic's."""
    target = kafka.log_dir / f"{TOPIC}-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, target)
    for name in ("cleaner-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (kafka.log_dir / name).unlink(missing_ok=True)
