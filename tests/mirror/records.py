"""Topics and their committed records, for the mirror tests."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker

Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]]]


def until(condition: Callable[[], object], what: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.2)


def create(broker: Broker, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        future.result(30)


def rows(broker: Broker, topic: str, partition: int = 0, start: int = 0) -> list[tuple[int, Row]]:
    """Return all committed records with their offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "looks",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[int, Row]] = []
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while True:
            message = consumer.poll(10)
            assert message is not None
            if message.error():
                return found
            row = (message.key(), message.value(), message.timestamp()[1], message.headers() or [])
            found.append((message.offset(), row))
    finally:
        consumer.close()


def values(broker: Broker, topic: str, partition: int = 0) -> list[Row]:
    known = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics
    return [row for _, row in rows(broker, topic, partition)] if topic in known else []
