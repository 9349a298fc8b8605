"""The load on the source while processes are killed, and the comparison of both sides."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

LEDGER, LATEST = "ledger", "latest"
PARTITIONS = {LEDGER: 3, LATEST: 2}
_KEYS = 500
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "3000",
    "min.cleanable.dirty.ratio": "0.01",
}


class Committed(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None

    @property
    def number(self) -> int:
        """Return the sequence number of a writer's record."""
        return int((self.value or b"-1").split(b" ")[0])


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = [
        NewTopic(LEDGER, PARTITIONS[LEDGER], -1),
        NewTopic(LATEST, PARTITIONS[LATEST], -1, config=_COMPACTED),
    ]
    for made in admin.create_topics(wanted).values():
        made.result(60)


class Writer:
    """Writes transactions of all sizes, some of them aborted, to a topic and to a compacted one."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._random = random.Random(random.random())
        self._producer = self._new()
        self.number = 0
        self.aborted = 0

    def _new(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": "writer",
                "linger.ms": 5,
                "transaction.timeout.ms": 60_000,
            }
        )
        self._persist(lambda: producer.init_transactions(30))
        return producer

    def write(self, count: int) -> None:
        end = self.number + count
        while self.number < end:
            size = min(end - self.number, self._random.choice((1, 20, 200, 1000)))
            try:
                self._transaction(size)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._persist(self._abort)
                else:
                    self._producer = self._new()  # aborts the previous producer's open transaction

    def _transaction(self, size: int) -> None:
        self._producer.begin_transaction()
        for _ in range(size):
            self._send()
        if self._random.random() < 0.2:
            self._persist(self._abort)
            self.aborted += size
        else:
            self._persist(lambda: self._producer.commit_transaction(30))

    def _abort(self) -> None:
        self._producer.abort_transaction(30)

    def _persist(self, step: Callable[[], None]) -> None:
        """Retry while the brokers are down."""
        deadline = time.monotonic() + 300
        while True:
            try:
                step()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _send(self) -> None:
        value = b"%d %s" % (self.number, b"x" * self._random.randrange(300))
        self.number += 1
        if self._random.random() < 0.7:
            topic, partition, key = LEDGER, self._random.randrange(PARTITIONS[LEDGER]), None
        else:
            number = self._random.randrange(_KEYS)
            topic, partition, key = LATEST, number % PARTITIONS[LATEST], b"k%d" % number
        while True:
            try:
                self._producer.produce(topic, value, key, partition)
                return
            except BufferError:
                self._producer.poll(0.1)


def committed(servers: str, topic: str, partition: int, start: int = 0) -> list[Committed]:
    """Return all committed records starting at an offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "looks",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[Committed] = []
    deadline = time.monotonic() + 300
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while time.monotonic() < deadline:
            for message in consumer.consume(10_000, 1):
                if message.error() is None:
                    found.append(Committed(message.offset() or 0, message.key(), message.value()))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    return found
        raise AssertionError(f"{topic}-{partition} could not be read to its end")
    finally:
        consumer.close()


def last_values(records: Sequence[Committed]) -> dict[bytes | None, bytes | None]:
    return {each.key: each.value for each in records}


def wrong_place(
    source: Sequence[Committed], target: Sequence[Committed], position: int, translated: int, compacted: bool
) -> str:
    """Return the error for a group at `position` of the source that continues at `translated`, or nothing."""
    last_read = max((each.number for each in source if each.offset < position), default=-1)
    after = [each for each in source if each.offset >= position]
    read = [each for each in target if each.offset >= translated]
    again = [each.number for each in read if each.number <= last_read]
    if again:
        return f"{len(again)} records are read again, from {again[0]} on"
    if compacted:
        last = last_values(read)
        missed = [each.number for each in after if each.key not in last]
    else:
        seen = {each.number for each in read}
        missed = [each.number for each in after if each.number not in seen]
    return f"{len(missed)} records are missed, from {missed[0]} on" if missed else ""


def first_difference(source: Sequence[Committed], target: Sequence[Committed]) -> str:
    """Return the first difference between two partitions, or an empty text."""
    here, there = ([(each.key, each.value) for each in records] for records in (source, target))
    for place, (one, other) in enumerate(zip(here, there, strict=False)):
        if one != other:
            return f"record {place}: {one!r} at the source, {other!r} at the target"
    return "" if len(here) == len(there) else f"{len(here)} records at the source, {len(there)} at the target"
