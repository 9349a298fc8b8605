"""The statements in docs/explanation/durability.md about power cuts hold on a disk that keeps only synced data."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.power_cut import PowerCut

COUNT = 20


@pytest.fixture
def power(monkeypatch: pytest.MonkeyPatch) -> PowerCut:
    return PowerCut(monkeypatch)


def soon(condition: Callable[[], bool], seconds: float = 10) -> bool:
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


def fill(broker: Broker, count: int = COUNT) -> None:
    for number in range(count):
        broker.produce("t", b"%d" % number)


def values(data: Path) -> list[int]:
    """Start a broker on the directory and return the values found."""
    with Broker(data=data) as broker:
        return [int(record.value) for record in broker.records("t")]


def test_with_flush_messages_1_everything_acknowledged_survives_a_power_cut(tmp_path, power):
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t", config={"flush.messages": "1"})
        fill(broker)
        left = power.survivors(tmp_path / "data", tmp_path / "left")
    assert values(left) == list(range(COUNT))


def test_with_flush_messages_n_at_most_the_last_n_are_lost(tmp_path, power):
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t", config={"flush.messages": "6"})
        fill(broker)
        left = power.survivors(tmp_path / "data", tmp_path / "left")
    assert values(left) == list(range(18))


def test_with_flush_ms_what_is_old_enough_survives(tmp_path, power):
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t", config={"flush.ms": "100"})
        fill(broker)
        log = broker._running().broker.replicas.leader("t", 0).log
        assert soon(lambda: log.recovery_point == COUNT)
        left = power.survivors(tmp_path / "data", tmp_path / "left")
    assert values(left) == list(range(COUNT))


def test_by_default_the_system_decides_when_records_reach_the_disk(tmp_path, power):
    """As in Kafka, a single copy of a record survives a process crash, but not a machine crash."""
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t")
        before = power.count
        fill(broker)
        assert power.count == before
        left = power.survivors(tmp_path / "data", tmp_path / "left")
    assert values(left) == []


def test_a_sealed_segment_is_synced_soon_whatever_the_settings(tmp_path, power):
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t", config={"segment.ms": "50"})
        fill(broker)
        time.sleep(0.1)
        broker.produce("t", b"20")
        log = broker._running().broker.replicas.leader("t", 0).log
        assert soon(lambda: log.recovery_point >= COUNT)
        left = power.survivors(tmp_path / "data", tmp_path / "left")
    assert values(left)[:COUNT] == list(range(COUNT))


def test_a_clean_shutdown_leaves_everything_on_the_disk(tmp_path, power):
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t")
        fill(broker)
    left = power.survivors(tmp_path / "data", tmp_path / "left")
    assert (left / ".kafka_cleanshutdown").exists()
    assert values(left) == list(range(COUNT))


def test_topics_are_on_the_disk_when_they_are_acknowledged(tmp_path, power):
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t", partitions=3, config={"retention.ms": "12345"})
        topic_id = broker.topic_id("t")
        left = power.survivors(tmp_path / "data", tmp_path / "left")
    with Broker(data=left) as broker:
        assert broker.topic_id("t") == topic_id
        assert [broker.produce("t", b"x", partition=index) for index in range(3)] == [0, 0, 0]


def test_deleted_records_do_not_come_back(tmp_path, power):
    with Broker(
        data=tmp_path / "data", config={"log.flush.start.offset.checkpoint.interval.ms": "100"}
    ) as broker:
        broker.create_topic("t", config={"flush.messages": "1"})
        fill(broker)
        running = broker._running().broker

        async def delete() -> None:
            running.replicas.leader("t", 0).delete_records(15)

        broker._run(delete())
        directory = running.replicas.log_directories[0]
        directory.checkpoint()
        left = power.survivors(tmp_path / "data", tmp_path / "left")
    assert values(left) == list(range(15, COUNT))
