"""Two brokers, and helpers for the link tests."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.offsets import LATEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings
from ottla.mirror.link.copy import LinkCopied, copy_log
from ottla.protocol.batch_header import BATCH_OVERHEAD, read_header
from ottla.testing import Broker

LINK = "dr"


def settings(broker: Broker) -> Settings:
    return Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers})


def create_mirror(source: Broker, target: Broker, topic: str, partitions: int = 1) -> None:
    text = base64.urlsafe_b64encode(source.topic_id(topic)).decode().rstrip("=")
    with closing(Cluster(settings(target))) as cluster:
        configs = {"ottla.mirror.link": LINK, "ottla.mirror.topic.id": text}
        create_topic(cluster, topic, partitions=partitions, replication_factor=1, configs=configs)


def copy(
    source: Broker,
    target: Broker,
    topic: str,
    partition: int = 0,
    *,
    skip_gaps: bool = False,
    link: str = LINK,
) -> LinkCopied:
    place = TopicPartition(topic, partition)
    with closing(Cluster(settings(source))) as cluster:
        end = list_offsets(cluster, {place: LATEST}, READ_COMMITTED)[place].offset
    return copy_log(settings(source), settings(target), link, place, end, skip_gaps=skip_gaps)


def log_bytes(broker: Broker, topic: str, partition: int = 0) -> bytes:
    files = sorted((broker.data / f"{topic}-{partition}").glob("*.log"))
    return b"".join(each.read_bytes() for each in files)


def produce(broker: Broker, topic: str, values: Sequence[bytes], **config: str) -> list[str]:
    """Produce records and return the errors."""
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **config})
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: errors.append(str(error)) if error else None
        )
    producer.flush(30)
    return errors


def values(count: int, what: bytes = b"v") -> list[bytes]:
    return [b"%s%d" % (what, number) for number in range(count)]


def produce_one_by_one(broker: Broker, topic: str, count: int) -> None:
    """Produce each record in its own batch."""
    for value in values(count):
        assert produce(broker, topic, [value]) == []


def restore_older_copy(broker: Broker, topic: str, end: int) -> None:
    """Set the disk back to an older state: the log ends at `end`, and a new leader epoch begins."""
    broker.stop()
    directory = Path(broker.data) / f"{topic}-0"
    for path in [
        *directory.glob("*index"),
        *directory.glob("*.snapshot"),
        *directory.glob("ottla-*"),  # the notes that remember the longer log
        *broker.data.glob(".kafka_clean*"),
    ]:
        path.unlink()
    [log] = directory.glob("*.log")
    data = log.read_bytes()
    at = 0
    while at + BATCH_OVERHEAD <= len(data) and read_header(data, at).base_offset < end:
        at += read_header(data, at).size
    log.write_bytes(data[:at])
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (broker.data / name).unlink(missing_ok=True)
    broker.start()
