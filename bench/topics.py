"""Topics for the bench, made through the admin client of confluent-kafka.

Clients like the others (see ``clients.py``), and in processes of their own for one more reason: librdkafka
aborts its process on some malformed answers, and the driver must outlive a broker that gives them.
"""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, NewTopic

from bench import wire


def create_topic(bootstrap: str, topic: str, partitions: int) -> dict[str, float]:
    """Create a topic and wait until every partition of it has a leader that answers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.list_topics(timeout=30)  # connected
    host, port = bootstrap.rsplit(":", 1)
    began = time.perf_counter()
    for future in admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=120).values():
        future.result(120)
    wait_until_served(host, int(port), topic, partitions)
    return {"seconds": time.perf_counter() - began}


def delete_topic(bootstrap: str, topic: str) -> dict[str, float]:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # has to outlive its futures
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    return {}


def served(host: str, port: int, topic: str, partitions: int) -> dict[str, float]:
    """Say "ready", wait for a broker to come back with every partition, and tell the system clock's time."""
    print("ready", flush=True)
    wire.wait_until_ready(host, port, timeout=120)
    wait_until_served(host, port, topic, partitions)
    return {"at": time.monotonic()}


def wait_until_served(host: str, port: int, topic: str, partitions: int, *, timeout: float = 120) -> None:
    """Return when ListOffsets is answered without error for every partition.

    On a raw connection: librdkafka remembers for minutes that a topic had no leader yet.
    """
    request = wire.list_offsets_frame(topic, partitions)
    deadline = time.monotonic() + timeout
    with wire.connect(host, port) as connection:
        while True:
            connection.sendall(request)
            errors = wire.list_offsets_errors(wire.read_response(connection), topic, partitions)
            if not any(errors):
                return
            if time.monotonic() > deadline:
                bad = sum(1 for error in errors if error)
                raise TimeoutError(f"{bad} of {partitions} partitions have no leader, error {max(errors)}")
            time.sleep(0.005)
