"""`ottla backup` and `ottla restore`: equal records for an independent reader, increments, resumed runs, damage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.cli.jobs import backup as jobs
from ottla.testing import Broker
from tests.cli.conftest import Ottla

OPEN = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


@pytest.fixture
def source() -> Iterator[Broker]:
    with Broker(config=OPEN) as broker:
        yield broker


@pytest.fixture
def target() -> Iterator[Broker]:
    with Broker(config=OPEN) as broker:
        yield broker


def read(broker: Broker, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[Any]:
    """Read a partition with librdkafka, as offset, key, value, headers and timestamp."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    consumer.assign([TopicPartition(topic, partition, start)])
    found: list[Any] = [start]
    while (message := consumer.poll(10)) is not None:
        if message.error():
            break
        found.append(
            (message.offset(), message.key(), message.value(), message.headers(), message.timestamp())
        )
    consumer.close()
    return found


def transactions(broker: Broker, topic: str, *, rounds: int, leave_open: bool = False) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": f"t-{time.time_ns()}",
            "linger.ms": 0,
        }
    )
    producer.init_transactions(10)
    for number in range(rounds):
        producer.begin_transaction()
        for each in range(3):
            producer.produce(
                topic, f"{number}-{each}", key=f"k{each}", partition=each % 2, headers={"n": b"1"}
            )
        if number % 3 == 2:
            producer.flush(10)
            producer.abort_transaction(10)
        else:
            producer.commit_transaction(10)
    if leave_open:
        producer.begin_transaction()
        producer.produce(topic, "never committed", partition=0)
        producer.flush(10)
        open_producers.append(producer)


open_producers: list[Producer] = []


def same(source: Broker, target: Broker, topic: str, partitions: int) -> None:
    for partition in range(partitions):
        for isolation in ("read_committed", "read_uncommitted"):
            assert read(target, topic, partition, isolation) == read(source, topic, partition, isolation)


def test_a_restored_cluster_reads_as_the_first(source, target, tmp_path):
    ottla, other = Ottla(source.bootstrap_servers), Ottla(target.bootstrap_servers)
    ottla("topics", "create", "orders", "-p", 2, "-c", "retention.ms=604800000")
    transactions(source, "orders", rounds=9)
    # A log that starts within a batch, and group offsets.
    ottla("topics", "create", "cut")
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "linger.ms": 200})
    for number in range(20):
        producer.produce("cut", f"v{number}", partition=0)
    producer.flush(10)
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    [deleted] = admin.delete_records([TopicPartition("cut", 0, 7)]).values()
    deleted.result(10)
    ottla("consume", "orders", "--group", "billing", "--from-beginning", "--until-end", "--quiet")
    ottla("acls", "add", "ann", "--read", "orders")
    ottla("topics", "create", "empty", "-p", 3)
    place = tmp_path / "backup"
    assert ottla("backup", place).lines[-1] == f"Wrote backup 1 to {place}."
    # The increment.
    files = {file: file.stat().st_mtime_ns for file in place.rglob("*.log")}
    transactions(source, "orders", rounds=4)
    assert ottla("backup", place).lines[-1] == f"Wrote backup 2 to {place}."
    assert {file: file.stat().st_mtime_ns for file in files} == files
    assert len(list(place.rglob("*.log"))) == len(files) + 2
    assert "all checksums are right" in ottla("backup", place, "--verify").text

    other("restore", place)
    same(source, target, "orders", 2)
    same(source, target, "cut", 1)
    assert read(target, "cut")[0] == 7
    offsets = [
        {
            (row["topic"], row["partition"]): row["current_offset"]
            for row in each("groups", "describe", "billing", "--json").json[0]["offsets"]
        }
        for each in (ottla, other)
    ]
    assert offsets[0] == offsets[1]
    assert other("acls", "list", "--json").json == ottla("acls", "list", "--json").json
    [topic] = other("topics", "describe", "orders", "--json").json
    [first] = ottla("topics", "describe", "orders", "--json").json
    assert topic["configs"].items() >= first["configs"].items()
    assert topic["topic_id"] == first["topic_id"]
    # Again: nothing happens. New transactions work, although the first cluster's producer ids may be used again.
    other("restore", place)
    transactions(target, "orders", rounds=3)
    assert len(read(target, "orders")) == len(read(source, "orders")) + 4


def test_a_backup_ends_before_open_transactions(source, target, tmp_path):
    source.create_topic("orders", 2)
    transactions(source, "orders", rounds=2, leave_open=True)
    committed = read(source, "orders")
    Ottla(source.bootstrap_servers)("backup", tmp_path / "b")
    Ottla(target.bootstrap_servers)("restore", tmp_path / "b")
    assert read(target, "orders") == committed
    assert read(target, "orders", isolation="read_uncommitted")[-1][2] != b"never committed"
    open_producers.pop().abort_transaction(10)


def test_compaction_leaves_gaps_and_offsets_stay(tmp_path, target):
    quick = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0.001"}
    with Broker(config=OPEN | quick) as source:
        source.create_topic(
            "users",
            1,
            {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"},
        )
        producer = Producer({"bootstrap.servers": source.bootstrap_servers, "linger.ms": 0})
        deadline = time.monotonic() + 60
        number = 0
        while len(found := read(source, "users")) - 1 >= number or not number:
            assert time.monotonic() < deadline, "the cleaner did not run"
            for _ in range(10):
                producer.produce("users", f"v{number}", key=f"k{number % 3}")
                number += 1
            producer.flush(10)
            time.sleep(0.15)
        place = tmp_path / "b"
        Ottla(source.bootstrap_servers)("backup", place)
        Ottla(target.bootstrap_servers)("restore", place)
        found = read(target, "users")[1:]
        offsets = [each[0] for each in found]
        assert len(offsets) <= offsets[-1]
        assert offsets == sorted(offsets)
        assert {each[1]: each[2] for each in found} == {
            each[1]: each[2] for each in read(source, "users")[1:]
        }


def test_interrupted_runs_resume(source, target, tmp_path, monkeypatch):
    """A killed backup leaves complete files, a killed restore complete batches. The next run continues behind them."""
    from ottla.client.cluster import Cluster
    from ottla.client.settings import Settings, parse_servers

    monkeypatch.setattr(jobs, "FILE_BYTES", 20_000)
    monkeypatch.setattr(jobs, "_FETCH_BYTES", 10_000)
    monkeypatch.setattr(jobs, "_APPEND_BYTES", 10_000)
    source.create_topic("big", 2)
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "batch.size": 5000})
    for number in range(1000):
        producer.produce("big", b"x" * 100 + str(number).encode(), partition=number % 2)
    producer.flush(10)
    cluster = Cluster(Settings(parse_servers(source.bootstrap_servers)))
    other = Cluster(Settings(parse_servers(target.bootstrap_servers)))

    class Stops:
        def __init__(self, store: jobs.Store, after: int) -> None:
            self.where, self.names, self._store, self.left = store.where, store.names, store, after

        def write(self, name: str, content: bytes) -> None:
            self._count()
            self._store.write(name, content)

        def read(self, name: str) -> bytes:
            self._count()
            return self._store.read(name)

        def _count(self) -> None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt

    store = jobs.open_store(str(tmp_path / "b"))
    with pytest.raises(KeyboardInterrupt):
        jobs.back_up(cluster, Stops(store, 3), print)
    assert jobs.newest_manifest(store) is None
    left = {file: file.stat().st_mtime_ns for file in (tmp_path / "b").rglob("*.log")}
    assert len(left) == 3
    # Bytes that a crash of the machine damaged are copied again.
    damaged = sorted(left)[2]
    damaged.write_bytes(damaged.read_bytes()[:-5])
    jobs.back_up(cluster, store, print)
    kept = sorted(left)[:2]
    assert {file: file.stat().st_mtime_ns for file in kept} == {file: left[file] for file in kept}
    with pytest.raises(KeyboardInterrupt):
        jobs.restore(other, Stops(store, 4), print)
    jobs.restore(other, store, print)
    same(source, target, "big", 2)
    cluster.close()
    other.close()


def test_damage_and_foreign_places_are_one_sentence(source, target, tmp_path):
    source.create_topic("orders")
    source.produce("orders", b"one")
    ottla, other = Ottla(source.bootstrap_servers), Ottla(target.bootstrap_servers)
    place = tmp_path / "b"
    nothing = other("restore", place, check=False)
    assert nothing.err == f"Error: {place} holds no finished backup.\n"
    ottla("backup", place)
    foreign = other("backup", place, check=False)
    assert "holds the backup of another cluster" in foreign.err
    target.create_topic("orders")
    taken = other("restore", place, check=False)
    assert taken.err.startswith("Error: Topic 'orders' exists already and does not come from this backup.")
    other("topics", "delete", "orders", "--yes")
    [file] = place.rglob("*.log")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    for command in (("backup", place, "--verify"), ("restore", place)):
        damaged = other(*command, check=False)
        assert damaged.err.startswith(f"Error: {place}/records/orders.")
        assert "checksum differs" in damaged.err
        assert len(damaged.err.splitlines()) == 1
    [manifest] = (place / "manifests").iterdir()
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    newer = other("restore", place, check=False)
    assert newer.err == f"Error: {place} has format 2, but this ottla reads format 1. Use a newer ottla.\n"
