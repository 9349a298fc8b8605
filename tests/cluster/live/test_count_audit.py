"""Promise: the count audit finds each lost, duplicated or replaced record, with topic, bucket and tier, and nothing
else.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

from ottla.client import cluster as client
from ottla.client.produce import produce
from ottla.client.settings import Settings, parse_servers
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, read_tier_counts, write_entries
from ottla.monitoring.audit.count_reports import NO_PARTITION, CountReport
from ottla.monitoring.audit.counting import Tier, count_topic
from ottla.monitoring.audit.tier_counts import DUPLICATION, LOSS, SUBSTITUTION, Finding, TierCounts
from ottla.protocol.batch_header import read_header
from ottla.protocol.record_format import Record
from ottla.protocol.records import build_batch, read_batch
from ottla.testing import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

BUCKET = 1000
MOMENT = 1_700_000_000_000
CONFIG = {
    "ottla.audit.enable": "true",
    "ottla.audit.bucket.ms": str(BUCKET),
    "ottla.audit.interval.ms": "300",
    "zookeeper.session.timeout.ms": "3000",
    "min.insync.replicas": "1",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config=CONFIG) as running:
        yield running


@pytest.fixture(autouse=True)
def everybody_back(cluster: Cluster) -> Iterator[None]:
    yield
    for broker_id in cluster.ports:
        if broker_id not in cluster.running():
            cluster.restart(broker_id)


@pytest.fixture
def opened(cluster: Cluster) -> Iterator[client.Cluster]:
    settings = Settings(parse_servers(cluster.bootstrap_servers), request_timeout=10, api_timeout=60)
    with closing(client.Cluster(settings)) as found:
        yield found


def write_page(opened: client.Cluster, topic: str, tier: str, records: list[tuple[int, bytes]]) -> None:
    """Count the records sent, like a producer."""
    page = CountReport(topic, tier, NO_PARTITION, -1, -1, time.time_ns() // 1_000_000, "test", BUCKET)
    for at, value in records:
        page.note(at, None, value)
    write_entries(opened, [page])


def counted(opened: client.Cluster, topic: str, tier: str = "broker") -> int:
    if AUDIT_TOPIC not in opened.topics([AUDIT_TOPIC]):
        return 0
    return sum(each.count for each in read_tier_counts(opened).counts.get((topic, tier), {}).values())


def wait_for_count(cluster: Cluster, opened: client.Cluster, topic: str, count: int) -> None:
    def reached() -> bool:
        try:
            return counted(opened, topic) == count
        except client.ClientError:
            return False

    cluster.wait_until(reached, f"brokers have counted {count} records of {topic}", 90)


def read_as(opened: client.Cluster, topic: str, tier: str = "reader", known_as: str | None = None) -> None:
    """Count the current records of the topic."""
    write_entries(opened, count_topic(opened, topic, Tier(tier, BUCKET, known_as), read_tier_counts(opened)))


def findings(opened: client.Cluster, topic: str, *tiers: str) -> list[Finding]:
    tier_counts: TierCounts = read_tier_counts(opened)
    return tier_counts.balance(topic, tiers, grace_ms=0)


def send(cluster: Cluster, topic: str, records: list[tuple[int, bytes]], **settings: object) -> None:
    """Send the records with acks=all."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.num.messages": 20, **settings}
    )
    failed: list[str] = []
    for at, value in records:
        producer.produce(topic, value, timestamp=at, on_delivery=lambda e, _: e and failed.append(str(e)))
    assert producer.flush(60) == 0
    assert failed == []


def some(numbers: range, bucket: int) -> list[tuple[int, bytes]]:
    return [(MOMENT + bucket * BUCKET + each % 900, b"value %d" % each) for each in numbers]


def test_nothing_is_reported_of_a_cluster_whose_brokers_are_killed(
    cluster: Cluster, opened: client.Cluster
) -> None:
    cluster.create_topic("orders", 4, config={"min.insync.replicas": "2"})
    cluster.create_topic("payments", 2, config={"min.insync.replicas": "2"})
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
    producer = confluent_kafka.Producer({**settings, "message.timeout.ms": 120_000})
    bank = confluent_kafka.Producer(
        {**settings, "transactional.id": "bank", "transaction.timeout.ms": 60_000}
    )
    bank.init_transactions(60)
    sent: list[tuple[int, bytes]] = []
    paid: list[tuple[int, bytes]] = []
    failed: list[str] = []
    rng = random.Random(5)
    numbers = itertools.count()

    def work() -> None:
        for _ in range(200):
            number = next(numbers)
            record = (MOMENT + number * 7, b"order %d" % number)
            producer.produce(
                "orders", record[1], timestamp=record[0], on_delivery=lambda e, _: e and failed.append(str(e))
            )
            sent.append(record)
        producer.poll(0)
        transaction = [(MOMENT + next(numbers) * 7, b"payment %d" % each) for each in range(10)]
        bank.begin_transaction()
        for at, value in transaction:
            bank.produce("payments", value, timestamp=at)
        if rng.random() < 0.3:
            bank.abort_transaction(120)
        else:
            bank.commit_transaction(120)
            paid.extend(transaction)

    for fault in ("kill", "kill", "stop", "kill"):
        work()
        victim = rng.choice([*cluster.ports])
        if fault == "kill":
            cluster.kill(victim)
        else:
            assert cluster.stop(victim) == 0
        work()
        cluster.restart(victim)
        for topic in ("orders", "payments", AUDIT_TOPIC):
            cluster.wait_for_isr(topic, cluster.ports)
    work()
    assert producer.flush(120) == 0
    assert failed == []
    for topic, records in (("orders", sent), ("payments", paid)):
        wait_for_count(cluster, opened, topic, len(records))
        write_page(opened, topic, "producer", records)
        read_as(opened, topic)
        assert findings(opened, topic, "producer", "broker", "reader") == []


def test_a_loss_by_an_unclean_election_is_found_where_it_was_read(
    cluster: Cluster, opened: client.Cluster
) -> None:
    cluster.create_topic("lost", config={"unclean.leader.election.enable": "true"})
    cluster.wait_until(lambda: counted(opened, "lost") == 0, "there are counts")
    leader = cluster.leader("lost")
    others = [each for each in cluster.ports if each != leader]
    send(cluster, "lost", some(range(100), 0))
    wait_for_count(cluster, opened, "lost", 100)
    for other in others:
        cluster.kill(other)
    cluster.wait_for_isr("lost", {leader})
    send(cluster, "lost", some(range(100, 150), 3))
    wait_for_count(cluster, opened, "lost", 150)
    cluster.kill(leader)
    for other in others:
        cluster._launch(other)
    cluster.wait_for_brokers(others)
    cluster.wait_until(lambda: cluster.leader("lost") in others, "another one leads")
    cluster.restart(leader)
    send(cluster, "lost", some(range(200, 230), 5))
    wait_for_count(cluster, opened, "lost", 180)
    read_as(opened, "lost")
    assert findings(opened, "lost", "broker", "reader") == [
        Finding("lost", MOMENT + 3 * BUCKET, "reader", "broker", LOSS, 50, 50)
    ]


def test_a_batch_that_a_producer_has_sent_again_is_a_duplication_at_the_broker(
    cluster: Cluster, opened: client.Cluster
) -> None:
    cluster.create_topic("doubled")
    records = some(range(40), 0) + some(range(40, 60), 2)
    write_page(opened, "doubled", "producer", records)
    send(cluster, "doubled", records)
    again = [Record(0, at, None, value) for at, value in records[45:55]]
    produce(opened, "doubled", again, 0)  # without sequence numbers the broker cannot detect it
    wait_for_count(cluster, opened, "doubled", 70)
    read_as(opened, "doubled")
    assert findings(opened, "doubled", "producer", "broker", "reader") == [
        Finding("doubled", MOMENT + 2 * BUCKET, "broker", "producer", DUPLICATION, -10, 20)
    ]


def test_a_record_that_was_changed_on_disk_is_a_substitution_where_it_was_read(
    cluster: Cluster, opened: client.Cluster
) -> None:
    cluster.create_topic("changed", replication_factor=1)
    send(cluster, "changed", some(range(10), 0) + some(range(10, 30), 1) + some(range(30, 40), 2))
    wait_for_count(cluster, opened, "changed", 40)
    leader = cluster.leader("changed")
    assert cluster.stop(leader) == 0
    change_a_record(cluster.directory(leader) / "changed-0", b"value 15", b"value 51")
    cluster.restart(leader)
    cluster.wait_for_leader("changed")
    send(cluster, "changed", some(range(40, 50), 4))
    wait_for_count(cluster, opened, "changed", 50)
    read_as(opened, "changed")
    assert findings(opened, "changed", "broker", "reader") == [
        Finding("changed", MOMENT + BUCKET, "reader", "broker", SUBSTITUTION, 0, 20)
    ]


def change_a_record(directory: Path, value: bytes, instead: bytes) -> None:
    """Change a record's value and fix the checksum of its batch, so that neither disk nor broker notices."""
    [segment] = [each for each in directory.glob("*.log") if each.stat().st_size]
    data = bytearray(segment.read_bytes())
    position = 0
    while position < len(data):
        header = read_header(data, position)
        records = read_batch(data, position)
        if any(each.value == value for each in records):
            changed = [
                Record(each.offset, each.timestamp, each.key, instead if each.value == value else each.value)
                for each in records
            ]
            batch = build_batch(
                changed,
                base_offset=header.base_offset,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                partition_leader_epoch=header.partition_leader_epoch,
                keep_offsets=True,
            )
            assert len(batch) == header.size
            data[position : position + header.size] = batch
            segment.write_bytes(data)
            return
        position += header.size
    raise AssertionError("there is no such record")
