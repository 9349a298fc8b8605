"""A broker counts the partitions it leads: off the hot path, only committed records, each once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.monitoring.audit.audit_topic import AUDIT_TOPIC, read_tier_counts
from ottla.monitoring.audit.count_reports import Counts, fingerprint
from ottla.monitoring.audit.tier_counts import TierCounts
from ottla.testing import Broker
from tests.broker.metrics.scraping import scrape
from tests.history.recorder import wait_until

BUCKET = 1000
MOMENT = 1_700_000_000_000
SETTINGS = {
    "ottla.audit.enable": "true",
    "ottla.audit.bucket.ms": str(BUCKET),
    "ottla.audit.interval.ms": "100",
}


def counts_of(broker: Broker) -> TierCounts:
    cluster = Cluster(Settings.from_properties(broker.client_properties()))
    try:
        return read_tier_counts(cluster) if cluster.topics([AUDIT_TOPIC]) else TierCounts()
    finally:
        cluster.close()


def counted(broker: Broker, topic: str, tier: str = "broker") -> int:
    return sum(each.count for each in counts_of(broker).counts.get((topic, tier), {}).values())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={**SETTINGS, "metrics.port": "0"}) as running:
        yield running


def test_counts_bytes_and_checksums_are_kept_by_the_time_of_records(broker: Broker) -> None:
    broker.create_topic("orders", 2)
    broker.create_topic("table", config={"cleanup.policy": "compact"})
    broker.produce("table", b"v", key=b"k")
    for place in range(6):
        broker.produce(
            "orders", b"v%d" % place, key=b"k", partition=place % 2, timestamp=MOMENT + place * 400
        )
    wait_until(lambda: counted(broker, "orders") == 6, "the count of orders", 20)
    tier_counts = counts_of(broker)
    sums = [sum(fingerprint(b"k", b"v%d" % each) for each in some) for some in ((0, 1, 2), (3, 4), (5,))]
    assert tier_counts.counts["orders", "broker"] == {
        MOMENT + at * BUCKET: Counts(count, 3 * count, sums[at] & (1 << 64) - 1)
        for at, count in enumerate((3, 2, 1))
    }
    assert tier_counts.topics == ["orders"]  # neither compacted nor internal topics
    assert scrape(broker).value("ottla_audit_broker_records_total") >= 6


def test_aborted_transactions_do_not_count(broker: Broker) -> None:
    broker.create_topic("transactions")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "audit"})
    producer.init_transactions(20)
    for place in range(4):
        producer.begin_transaction()
        producer.produce("transactions", b"%d" % place)
        if place % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    wait_until(lambda: counted(broker, "transactions") == 2, "the count of transactions", 20)


def test_a_process_that_dies_is_started_again_and_counts_on(broker: Broker) -> None:
    broker.create_topic("killed")
    broker.produce("killed", b"1")
    wait_until(lambda: counted(broker, "killed") == 1, "the count of killed", 20)
    audit = broker._running().broker.count_audit
    assert audit is not None
    assert audit.pid is not None
    before = audit.pid
    os.kill(before, signal.SIGKILL)
    broker.produce("killed", b"2")
    wait_until(lambda: counted(broker, "killed") == 2, "the count of killed", 30)
    assert audit.pid != before


def test_what_is_new_is_written_at_shutdown_and_nothing_twice_after_it(tmp_path: Path) -> None:
    settings = {**SETTINGS, "ottla.audit.interval.ms": "3600000", "ottla.audit.checksums.enable": "false"}
    with Broker(config=settings, data=tmp_path) as broker:
        broker.create_topic("orders")
        for place in range(5):
            broker.produce("orders", b"%d" % place, timestamp=MOMENT)
        assert counted(broker, "orders") == 0
        broker.restart()
        assert counted(broker, "orders") == 5
        broker.produce("orders", b"more", timestamp=MOMENT)
        broker.restart()
        assert counted(broker, "orders") == 6


def test_it_logs_in_where_brokers_do() -> None:
    login = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="a \\"b";'
    )
    inter_broker = {
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": login,
    }
    settings = {**SETTINGS, **inter_broker}
    with Broker(config=settings, security="SASL_SSL", users={"admin": 'a "b'}, acls=[]) as broker:
        broker.create_topic("orders")
        broker.produce("orders", b"v")
        wait_until(lambda: counted(broker, "orders") == 1, "the count of orders", 30)


def test_without_the_setting_there_is_no_process() -> None:
    with Broker() as broker:
        assert broker._running().broker.count_audit is None
