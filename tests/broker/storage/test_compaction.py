"""Compaction from a client's point of view."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.testing import Broker

CONFIG = {"log.cleaner.backoff.ms": "20"}
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "200"}


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def cleaned(broker: Broker) -> int:
    return broker.cleaner_status().cleaned_logs


def read_all(
    broker: Broker, topic: str, count: int, group: str = "readers"
) -> list[tuple[int, str, str | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found = []
    while len(found) < count:
        message = consumer.poll(10)
        assert message is not None
        assert not message.error()
        value = message.value()
        found.append((message.offset(), message.key().decode(), None if value is None else value.decode()))
    consumer.close()
    return found


@pytest.fixture
def broker():
    with Broker(config=CONFIG) as broker:
        yield broker


def test_the_last_records_are_compacted_without_waiting_for_another(broker):
    broker.create_topic("salaries", config=COMPACT)
    for key, value in ((b"A", b"1000"), (b"B", b"1000"), (b"C", b"1000"), (b"A", b"2000"), (b"B", b"2000")):
        broker.produce("salaries", value, key=key)

    def kept() -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in broker.records("salaries")]

    until(lambda: kept() == [(b"C", b"1000"), (b"A", b"2000"), (b"B", b"2000")])


def test_a_new_reader_sees_the_last_salary_of_each_employee_at_its_original_offset(broker):
    broker.create_topic("employee-salary", config={**COMPACT, "segment.ms": "2000"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for employee, salary in [("A", "1000"), ("B", "1000"), ("C", "1000"), ("A", "2000"), ("B", "2000")]:
        producer.produce("employee-salary", key=employee, value=salary)
        producer.flush()
    time.sleep(2.1)
    producer.produce("employee-salary", key="D", value="1")  # closes the segment, which is old enough
    producer.flush()
    until(lambda: cleaned(broker) > 0)
    assert read_all(broker, "employee-salary", 4) == [
        (2, "C", "1000"),
        (3, "A", "2000"),
        (4, "B", "2000"),
        (5, "D", "1"),
    ]
    status = broker.cleaner_status()
    assert (status.last.records_read, status.last.records_kept) == (5, 3)
    assert not status.uncleanable


def fill(broker: Broker, topic: str, *, records: int, keys: int, batch: int = 200) -> None:
    """Write the keys in turn, with the record number as value."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for at in range(records):
        producer.produce(topic, key=b"%d" % (at % keys), value=b"%d" % at + b"." * 80)
        if at % 10_000 == 0:
            producer.flush()
    producer.flush()


def test_a_large_log_is_compacted_by_compiled_code_and_keeps_the_last_value_of_each_key(broker):
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"}
    broker.create_topic("large", config=config)
    fill(broker, "large", records=40_000, keys=1000)
    until(lambda: cleaned(broker) > 0 and not broker.cleaner_status().backlog)
    records = broker.records("large")
    assert len(records) < 20_000
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    last = {record.key: record.value for record in records}
    assert {int(value.rstrip(b".")) for value in last.values()} == set(range(39_000, 40_000))
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    until(lambda: "large 0 " in checkpoint.read_text())
    broker.restart()
    assert [record.offset for record in broker.records("large")] == offsets


def test_without_numba_large_logs_are_compacted_in_plain_python_and_the_log_says_once_what_to_install(
    tmp_path, monkeypatch, caplog
):
    for module in ("numba", "numpy"):
        (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{module}'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # takes precedence over the installed packages
    monkeypatch.setattr("ottla.log.cleaner.task._LARGE_BYTES", 2 << 20)
    config = {"cleanup.policy": "delete", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"}
    with Broker(config=CONFIG) as broker:
        for topic in ("one", "two"):
            broker.create_topic(topic, config=config)
            fill(broker, topic, records=40_000, keys=1000)
            # Enable compaction only now: a log compacted while it grows would never become large.
            compact = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[compact])
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            for done in admin.incremental_alter_configs([resource]).values():
                done.result()
        for topic in ("one", "two"):
            until(lambda topic=topic: len(broker.records(topic)) < 20_000)
            last = {record.key: record.value for record in broker.records(topic)}
            assert {int(value.rstrip(b".")) for value in last.values()} == set(range(39_000, 40_000))
    advice = [record.getMessage() for record in caplog.records if "ottla[server]" in record.getMessage()]
    assert len(advice) == 1
    assert "in plain Python, which is slow: No module named 'num" in advice[0]


def test_a_log_that_cannot_be_compacted_is_set_aside_and_the_others_go_on(broker, caplog):
    for topic in ("bad", "good"):
        broker.create_topic(topic, config=COMPACT)
    for at in range(3):
        broker.produce("bad", b"%d" % at, key=b"k")
    damage(broker.data / "bad-0" / "00000000000000000000.log")
    time.sleep(0.3)
    broker.produce("bad", b"3", key=b"k")
    until(lambda: ("bad", 0) in broker.cleaner_status().uncleanable)
    assert "is corrupt at byte" in broker.cleaner_status().uncleanable["bad", 0]
    assert [r.message for r in caplog.records if "bad-0 cannot be compacted" in r.message]
    for at in range(3):
        broker.produce("good", b"%d" % at, key=b"k")
    time.sleep(0.3)
    broker.produce("good", b"3", key=b"k")
    until(lambda: [record.value for record in broker.records("good")] == [b"2", b"3"])
    broker.delete_topic("bad")
    assert not broker.cleaner_status().uncleanable


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def test_committed_offsets_are_compacted_and_found_again_after_a_restart(broker):
    config = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
    broker.ensure_internal_topic("__consumer_offsets")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(
        ResourceType.TOPIC,
        "__consumer_offsets",
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ],
    )
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    broker.create_topic("t")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    for at in range(1, 30):
        consumer.commit(offsets=[TopicPartition("t", 0, at)], asynchronous=False)
    time.sleep(0.3)
    consumer.commit(offsets=[TopicPartition("t", 0, 30)], asynchronous=False)
    until(lambda: cleaned(broker) > 0)
    assert broker.cleaner_status().last.name[0] == "__consumer_offsets"
    assert broker.cleaner_status().last.records_kept < 5
    consumer.close()
    broker.restart()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    assert consumer.committed([TopicPartition("t", 0)])[0].offset == 30
    consumer.close()


def test_a_topic_can_be_deleted_while_it_is_compacted():
    slow = {**CONFIG, "log.cleaner.io.max.bytes.per.second": "200000"}
    with Broker(config=slow) as broker:
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.bytes": "1048576",
        }
        broker.create_topic("doomed", config=config)
        fill(broker, "doomed", records=20_000, keys=1000)
        until(lambda: ("doomed", 0) in broker.cleaner_status().running)
        broker.delete_topic("doomed")
        until(lambda: not broker.cleaner_status().running)
        assert not broker.cleaner_status().uncleanable


def test_a_worker_that_dies_is_replaced():
    slow = {**CONFIG, "log.cleaner.io.max.bytes.per.second": "1000000"}
    with Broker(config=slow) as broker:
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.bytes": "1048576",
        }
        broker.create_topic("t", config=config)
        fill(broker, "t", records=15_000, keys=10)
        until(lambda: ("t", 0) in broker.cleaner_status().running)
        time.sleep(0.2)
        [worker] = children()
        os.kill(worker, signal.SIGKILL)
        until(lambda: cleaned(broker) > 0)
        assert not broker.cleaner_status().uncleanable
        assert children() != [worker]
    assert not children()  # the processes end with the broker


def children() -> list[int]:
    """Return the processes that run the cleaner for this process."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if (
                    parent == os.getpid()
                    and b"ottla.log.cleaner.worker.main" in (process / "cmdline").read_bytes()
                ):
                    found.append(int(process.name))
            except (OSError, IndexError, ValueError):
                continue
    return found


def test_aborted_records_are_dropped_and_never_read(broker):
    broker.create_topic("t", config=COMPACT)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "linger.ms": 0}
    )
    producer.init_transactions()
    for number, commit in enumerate([True, False, True, False]):
        producer.begin_transaction()
        for key in ("A", f"only-{number}"):
            producer.produce("t", key=key, value=str(number))
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    time.sleep(0.3)
    broker.produce("t", b"1", key=b"D")
    until(lambda: cleaned(broker) > 0)
    expected = [("only-0", "0"), ("A", "2"), ("only-2", "2"), ("D", "1")]
    assert [(key, value) for _, key, value in read_all(broker, "t", 4)] == expected
    values = {record.value for record in broker.records("t")}
    assert values == {b"0", b"1", b"2"}  # not even for a reader of the whole log
    broker.restart()
    assert [(key, value) for _, key, value in read_all(broker, "t", 4, group="others")] == expected
