"""Topics for the bench, made through the admin client of confluent-kafka."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec


def admin(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 10, "log_level": 0})


def create_topic(bootstrap: str, topic: str, partitions: int, *, timeout: float = 120) -> None:
    """Create a topic and return when every partition of it has a leader that answers."""
    client = admin(bootstrap)
    created = client.create_topics([NewTopic(topic, partitions, 1)], request_timeout=timeout)
    for future in created.values():
        future.result(timeout)
    wait_until_served(bootstrap, topic, partitions, timeout=timeout, client=client)


def wait_until_served(
    bootstrap: str, topic: str, partitions: int, *, timeout: float = 120, client: Any = None
) -> None:
    """Return when ListOffsets is answered without error for every partition."""
    client = client or admin(bootstrap)
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
    deadline = time.monotonic() + timeout
    while True:
        try:
            for future in client.list_offsets(wanted, request_timeout=10).values():
                future.result(10)
            return
        except (KafkaException, TimeoutError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic; a broker that cannot is not the bench's concern."""
    for future in admin(bootstrap).delete_topics([topic]).values():
        try:
            future.result(30)
        except (KafkaException, TimeoutError):
            return
