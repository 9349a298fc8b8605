"""Compaction as a client sees it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer

from ottla.testing import Broker

CONFIG = {"log.cleaner.backoff.ms": "20"}
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "200"}


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def cleaned(broker: Broker) -> int:
    return broker.cleaner_status().cleaned_logs


def read_all(broker: Broker, topic: str, count: int) -> list[tuple[int, str, str | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
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


def test_a_new_reader_sees_the_last_salary_of_each_employee_at_its_original_offset(broker):
    broker.create_topic("employee-salary", config=COMPACT)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for employee, salary in [("A", "1000"), ("B", "1000"), ("C", "1000"), ("A", "2000"), ("B", "2000")]:
        producer.produce("employee-salary", key=employee, value=salary)
        producer.flush()
    time.sleep(0.3)
    producer.produce("employee-salary", key="D", value="1")  # closes the segment
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
