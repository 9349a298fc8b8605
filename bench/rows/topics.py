"""Topics for the bench, made through the admin client of confluent-kafka.

Clients like the others (see ``clients.py``), and in processes of their own for one more reason: librdkafka
aborts its process on some malformed answers, and the driver must outlive a broker that gives them.
"""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, NewTopic

from bench.measuring import wire
from bench.rows.metadata import addresses, wait_until_served


def create_topic(bootstrap: str, topic: str, partitions: int) -> dict[str, float]:
    """Create a topic of the broker's default factor and wait until every partition has a leader that answers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.list_topics(timeout=30)  # connected
    began = time.perf_counter()
    for future in admin.create_topics([NewTopic(topic, partitions)], request_timeout=120).values():
        future.result(120)
    wait_until_served(bootstrap, topic, partitions)
    return {"seconds": time.perf_counter() - began}


def delete_topic(bootstrap: str, topic: str) -> dict[str, float]:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # has to outlive its futures
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    return {}


def served(bootstrap: str, topic: str, partitions: int) -> dict[str, float]:
    """Say "ready", wait for a broker to come back with every partition, and tell the system clock's time."""
    print("ready", flush=True)
    [(host, port)] = addresses(bootstrap)
    wire.wait_until_ready(host, port, timeout=120)
    wait_until_served(bootstrap, topic, partitions)
    return {"at": time.monotonic()}
