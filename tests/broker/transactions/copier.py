"""Copy a topic exactly once, with transactions, until killed: python -m tests.broker.transactions.copier …"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

_PATIENCE = 15.0
_alive = [time.monotonic()]
_kept: list[Producer] = []


def copy(bootstrap_servers: str, source: str, target: str, group: str, transactional_id: str) -> None:
    quiet = {
        "bootstrap.servers": bootstrap_servers,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 20,
        # While the only broker is down, librdkafka forgets it (KIP-899), and calls that wait for it never return.
        "metadata.recovery.strategy": "none",
        "logger": None,
        "error_cb": lambda _: None,
    }
    producer = Producer(
        {**quiet, "transactional.id": transactional_id, "linger.ms": 1, "transaction.timeout.ms": 10_000}
    )
    _kept.append(producer)
    consumer = Consumer(
        {
            **quiet,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
        }
    )
    try:
        producer.init_transactions(30)
        consumer.subscribe([source])
        while True:
            _alive[0] = time.monotonic()
            messages = [m for m in consumer.consume(random.randint(1, 100), 0.1) if not m.error()]
            if not messages:
                continue
            producer.begin_transaction()
            positions: dict[int, int] = {}
            for message in messages:
                producer.produce(target, message.value(), partition=message.partition())
                positions[message.partition()] = message.offset() + 1
            if random.random() < 0.1:
                producer.flush(20)  # consumers must never see aborted records
                producer.abort_transaction(30)
                return
            producer.send_offsets_to_transaction(
                [TopicPartition(source, partition, offset) for partition, offset in positions.items()],
                consumer.consumer_group_metadata(),
                30,
            )
            _commit(producer)
    finally:
        consumer.close()


def _commit(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(30)
            return
        except KafkaException as error:
            if error.args[0].retriable():
                continue
            if error.args[0].txn_requires_abort():
                producer.abort_transaction(30)
            raise


def _watch() -> None:
    """Exit if librdkafka hangs after many reconnects. An operator would restart the program."""
    while time.monotonic() - _alive[0] < _PATIENCE:
        time.sleep(0.5)
    _again()


def _again() -> None:
    """Restart with a new producer from the committed offsets; only time is lost.

    A new process is needed because librdkafka may hang when a producer is destroyed while it reconnects.
    """
    os.execv(sys.executable, [sys.executable, "-m", "tests.broker.transactions.copier", *sys.argv[1:]])


if __name__ == "__main__":
    threading.Thread(target=_watch, daemon=True).start()
    with contextlib.suppress(KafkaException):
        copy(*sys.argv[1:])
    _again()
