"""The contents of a topic, as librdkafka reads them."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


def consume(
    bootstrap_servers: str, topic: str, partitions: int = 3, *, isolation: str = "read_committed"
) -> list[Message]:
    """Read each partition to its end. Under read_committed, that is the start of an open transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "check",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: list[Message] = []
        ended: set[int | None] = set()
        deadline = time.monotonic() + 60
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for message in consumer.consume(1000, 1):
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        return found
    finally:
        consumer.close()
