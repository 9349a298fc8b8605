"""The work of a task, between two real brokers and without Spark."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

pytest.importorskip("pyarrow")

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import LATEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings
from ottla.client.transactions import TransactionClient
from ottla.mirror import raw_copy
from ottla.mirror.errors import Gap
from ottla.mirror.formats import Run
from ottla.mirror.raw_copy import Copied, CopyRange, copy_range
from ottla.testing import Broker

Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as a, Broker() as b:
        yield a, b


def settings(broker: Broker) -> Settings:
    return Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers})


def create(broker: Broker, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)


def records(broker: Broker, topic: str) -> list[tuple[int, Row]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "looks",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: list[tuple[int, Row]] = []
    with closing(consumer):
        consumer.assign([Place(topic, 0, 0)])
        while (message := consumer.poll(10)) is not None and not message.error():
            row = (message.key(), message.value(), message.timestamp()[1], message.headers() or [])
            found.append((message.offset(), row))
    return found


def produce_values(broker: Broker, topic: str, count: int) -> None:
    """Produce each value in its own batch."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
        producer.flush()


def copy(
    clusters: tuple[Broker, Broker],
    topic: str,
    start: int = 0,
    *,
    compacted: bool = False,
    skip_gaps: bool = False,
) -> Copied:
    source, target = map(settings, clusters)
    with closing(Cluster(source)) as cluster:
        partition = TopicPartition(topic, 0)
        end = list_offsets(cluster, {partition: LATEST}, READ_COMMITTED)[partition].offset
    with closing(Cluster(target)) as cluster:
        client = TransactionClient(cluster)
        transaction = client.begin(f"mirror {topic}", 60_000)
        wanted = CopyRange(TopicPartition(topic, 0), start, end, TopicPartition(topic, 0), compacted)
        try:
            copied = copy_range(source, target, transaction, wanted, skip_gaps=skip_gaps)
        except BaseException:
            client.end([transaction], commit=False)
            raise
        client.end([transaction], commit=True)
    return copied


def check(clusters: tuple[Broker, Broker], topic: str, copied: Copied) -> None:
    """Check that all records exist in order, at the positions given by the runs."""
    before, after = (records(broker, topic) for broker in clusters)
    assert [row for _, row in after] == [row for _, row in before]
    pairs = [(run.start + each, run.target_start + each) for run in copied.runs for each in range(run.length)]
    assert pairs == [(old, new) for (old, _), (new, _) in zip(before, after, strict=True)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_large_batches_pass_as_they_are(clusters: tuple[Broker, Broker], codec: str) -> None:
    topic = f"large-{codec}"
    for broker in clusters:
        create(broker, topic)
    producer = Producer(
        {
            "bootstrap.servers": clusters[0].bootstrap_servers,
            "compression.type": codec,
            "linger.ms": 100,
            "batch.size": 500_000,
        }
    )
    noise = random.Random(1)
    for number in range(2000):
        producer.produce(
            topic, noise.randbytes(700), str(number).encode(), headers=[("n", b"h")], timestamp=5 + number
        )
    producer.flush()
    copied = copy(clusters, topic)
    assert copied.runs == (Run(0, 0, 2000),)
    check(clusters, topic, copied)


def test_small_batches_are_joined(clusters: tuple[Broker, Broker]) -> None:
    for broker in clusters:
        create(broker, "small")
    producer = Producer({"bootstrap.servers": clusters[0].bootstrap_servers, "linger.ms": 0})
    for number in range(300):
        producer.produce("small", None if number % 7 == 0 else b"v%d" % number, b"k%d" % number)
        producer.flush()
    check(clusters, "small", copy(clusters, "small"))


def test_transactions_arrive_without_markers_and_aborted_records(clusters: tuple[Broker, Broker]) -> None:
    for broker in clusters:
        create(broker, "committed")
    producer = Producer(
        {"bootstrap.servers": clusters[0].bootstrap_servers, "transactional.id": "t", "linger.ms": 50}
    )
    producer.init_transactions()
    for number in range(40):
        producer.begin_transaction()
        for each in range(1 if number % 5 else 60):
            producer.produce("committed", random.Random(each).randbytes(1000))
        producer.flush()
        if number % 3:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    copied = copy(clusters, "committed")
    assert len(copied.runs) > 20
    check(clusters, "committed", copied)


def test_it_begins_and_ends_within_a_batch(clusters: tuple[Broker, Broker]) -> None:
    for broker in clusters:
        create(broker, "middle")
    producer = Producer(
        {"bootstrap.servers": clusters[0].bootstrap_servers, "linger.ms": 100, "batch.size": 500_000}
    )
    for number in range(500):
        producer.produce("middle", b"%04d" % number * 50)
    producer.flush()
    copied = copy(clusters, "middle", 123)
    assert copied.runs == (Run(123, 0, 377),)
    assert [row for _, row in records(clusters[1], "middle")] == [
        row for _, row in records(clusters[0], "middle")
    ][123:]


def test_log_append_time_becomes_the_time_of_the_record(clusters: tuple[Broker, Broker]) -> None:
    create(clusters[0], "appended", **{"message.timestamp.type": "LogAppendTime"})
    create(clusters[1], "appended")
    producer = Producer({"bootstrap.servers": clusters[0].bootstrap_servers, "linger.ms": 50})
    for number in range(100):
        producer.produce("appended", gzip.compress(b"%d" % number) * 20, timestamp=1000)
    producer.flush()
    check(clusters, "appended", copy(clusters, "appended"))


def test_what_is_gone_is_an_error_or_skipped_by_wish(clusters: tuple[Broker, Broker]) -> None:
    for broker in clusters:
        create(broker, "gone")
    producer = Producer({"bootstrap.servers": clusters[0].bootstrap_servers})
    for number in range(50):
        producer.produce("gone", b"%d" % number)
    producer.flush()
    admin = AdminClient({"bootstrap.servers": clusters[0].bootstrap_servers})
    admin.delete_records([Place("gone", 0, 20)])[Place("gone", 0)].result(30)
    with pytest.raises(Gap, match="Offsets 5 to 19 of gone-0 are gone from the source"):
        copy(clusters, "gone", 5)
    assert records(clusters[1], "gone") == []
    assert copy(clusters, "gone", 5, skip_gaps=True).runs == (Run(20, 1, 30),)


def test_a_few_small_batches_and_markers_between_large_ones_are_not_decoded(
    clusters: tuple[Broker, Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in clusters:
        create(broker, "mixed")
    producer = Producer(
        {
            "bootstrap.servers": clusters[0].bootstrap_servers,
            "transactional.id": "mixed",
            "linger.ms": 100,
            "batch.size": 500_000,
        }
    )
    producer.init_transactions()
    for size in (300, 1, 300, 2, 300):
        producer.begin_transaction()
        for number in range(size):
            producer.produce("mixed", random.Random(number).randbytes(1000))
        producer.commit_transaction()
    monkeypatch.setattr(raw_copy.kernels, "decode", lambda *_, **__: pytest.fail("it was decoded"))
    copied = copy(clusters, "mixed")
    assert [run.length for run in copied.runs] == [300, 1, 300, 2, 300]
    check(clusters, "mixed", copied)


def test_a_fetch_that_ends_within_the_header_of_a_batch_is_no_error(clusters: tuple[Broker, Broker]) -> None:
    for broker in clusters:
        create(broker, "cut")
    produce_values(clusters[0], "cut", 3)
    with closing(Cluster(settings(clusters[0]))) as cluster:
        options = FetchOptions(max_bytes=1 << 20)
        whole = bytes(PartitionFetcher(cluster, TopicPartition("cut", 0), options).fetch(0).records)
    found = raw_copy._whole_batches(memoryview(whole))
    assert len(found) == 3
    for length in range(found[2][0], len(whole)):
        assert len(raw_copy._whole_batches(memoryview(whole[:length]))) == 2
