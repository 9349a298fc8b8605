"""Promise: a transaction across several brokers' partitions is atomic, whichever process dies."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ottla.testing import Cluster, ZooKeeper
from tests.cluster.history.bank import audit
from tests.cluster.history.cluster_faults import ClusterFaults, table
from tests.cluster.history.test_history import CONFIG, SECONDS, SEED, SESSION_SECONDS
from tests.history.checker import Poll, check
from tests.history.recorder import PARTITIONS, TOPIC, Recorder, wait_for_progress
from tests.history.test_transactions_under_faults import wait_until_nothing_is_open
from tests.history.writers import Writer


def side(transfer: str, change: int, balance: int) -> str:
    return json.dumps({"transfer": transfer, "writer": "t", "change": change, "balance": balance})


def test_the_audit_finds_what_is_wrong_in_the_books() -> None:
    first, second = (0, side("1", -10, 90)), (1, side("1", 10, 110))
    assert audit([first, second]) == ([], 1)
    assert audit([second, first, (0, side("2", 5, 95)), (2, side("2", -5, 95))]) == ([], 2)
    for books in (
        [first],  # torn
        [first, second, second],  # doubled
        [first, second, (0, side("3", -1, 88)), (1, side("3", 1, 111))],  # an earlier record is lost
        [first, (1, side("1", 11, 111))],  # money out of nothing
    ):
        assert audit(books)[0]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 420)
def test_no_money_is_made_or_lost_whatever_dies(tmp_path: Path) -> None:
    print(f"\nOTTLA_CHAOS_SEED={SEED}; what the brokers said: {tmp_path}")
    config = {**CONFIG, "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    with (
        ZooKeeper(3, faults=True) as zookeeper,
        Cluster(3, config=config, zookeeper=zookeeper, data=tmp_path, faults=True) as cluster,
    ):
        servers = cluster.bootstrap_servers
        cluster.create_topic(TOPIC, PARTITIONS)
        trouble = ClusterFaults(cluster, SEED, SESSION_SECONDS)
        recorder = Recorder(servers)
        recorder.start(producers=0, consumers=1)
        writers = [
            Writer(servers, name, name, timeout_ms=10_000, module="tests.cluster.history.bank")
            for name in ("anna", "ben", "cleo")
        ]
        try:
            for kind in trouble.kinds_for(SECONDS):
                wait_for_progress(lambda: sum(writer.ended for writer in writers), 40)
                trouble.strike(kind)
            wait_for_progress(lambda: sum(writer.ended for writer in writers), 40)
            trouble.repair()
        finally:
            for writer in writers:
                writer.stop()
            recorder.stop_reading()
        wait_until_nothing_is_open(AdminClient({"bootstrap.servers": servers, "logger": None}))
        recorder.read_to_the_end()
    for writer in writers:
        recorder.note(*writer.history(trouble))
    tally = sum((writer.tally() for writer in writers), Counter())
    print(table(trouble.faults, sorted((when, 0) for writer in writers for when in writer.committed_at)))
    print(f"{len(trouble.faults)} faults, {dict(tally)}")
    assert tally["commit: committed"]
    assert tally["abort: aborted"]
    anomalies = check(recorder.history)
    read = [
        (partition, value)
        for event in recorder.history.events
        if isinstance(event, Poll) and event.consumer == "reader"
        for partition, _, value in event.records
    ]
    wrong, looked = audit(read)
    print(f"The checker found {anomalies or 'nothing'}, the audit {wrong or 'nothing'}")
    assert anomalies == []
    assert wrong == []
    assert looked, "the sum was never looked at"
