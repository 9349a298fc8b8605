"""The work of a soak, and the checks of its results."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

PARTITIONS = 3
_HUNG_SECONDS = 120.0
_QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None, "reconnect.backoff.max.ms": 500}
#: Closing a producer while it reconnects may hang, so none is closed.
_kept: list[Producer] = []


def key_of(number: int) -> str:
    return f"k{number % 50}"


def partition_of(number: int) -> int:
    """Return the partition of a number. All numbers of one key are in one partition."""
    return number % 50 % PARTITIONS


class Feeder:
    """Writes the numbers 0, 1, 2, … to the topic `numbers`, under 50 keys."""

    def __init__(self, client: Mapping[str, str], pause: float) -> None:
        self._client = {**client, **_QUIET}
        self._pause = pause
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        producer = Producer(
            {**self._client, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 600_000}
        )

        def delivered(error: Any, message: Message) -> None:
            if error is None:
                self.acknowledged.add(json.loads(message.value())["N"])
            else:
                self.failed.append(str(error))

        while not self._stopping.is_set():
            number = self.sent
            value = json.dumps({"N": number})
            try:
                producer.produce(
                    "numbers",
                    value,
                    key=key_of(number),
                    partition=partition_of(number),
                    on_delivery=delivered,
                )
                self.sent += 1
            except BufferError:
                time.sleep(0.2)
            producer.poll(0)
            time.sleep(self._pause)
        if left := producer.flush(300):
            self.failed.append(f"{left} records were not delivered")
        _kept.append(producer)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


class Copier:
    """Reads `numbers` as a group and writes `copied`: records and offsets in one transaction.

    librdkafka may wait for ever for a coordinator that has left the metadata (librdkafka #5511). A copier without
    progress for two minutes is abandoned, and another one with the same transactional id fences it.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = {**client, **_QUIET}
        self._stopping = threading.Event()
        self._life = 0
        self._progress = time.monotonic()
        self.transactions = 0
        self.repeated = 0
        self.given_up = 0
        self.problem = "none"

    def start(self) -> None:
        self._begin()
        threading.Thread(target=self._watch, daemon=True).start()

    def _begin(self) -> None:
        self._life += 1
        self._progress = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(self._life,), daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopping.wait(1):
            if time.monotonic() - self._progress > _HUNG_SECONDS:
                self.given_up += 1
                self._begin()

    def _goes_on(self, life: int) -> bool:
        return life == self._life and not self._stopping.is_set()

    def _run(self, life: int) -> None:
        while self._goes_on(life):
            consumer = Consumer(
                {
                    **self._client,
                    "group.id": "copier",
                    "max.poll.interval.ms": 60_000,
                    "session.timeout.ms": 10_000,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                }
            )
            try:
                self._copy(consumer, life)
            except KafkaException as error:
                self.repeated += 1
                self.problem = str(error)
                time.sleep(0.5)
            finally:
                consumer.close()

    def _copy(self, consumer: Consumer, life: int) -> None:
        producer = Producer(
            {**self._client, "transactional.id": "copier", "transaction.timeout.ms": 20_000, "linger.ms": 5}
        )
        _kept.append(producer)
        producer.init_transactions(60)
        consumer.subscribe(["numbers"])
        while self._goes_on(life):
            self._progress = time.monotonic()
            messages = [each for each in consumer.consume(500, timeout=0.5) if each.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            ends: dict[int, int] = {}
            for each in messages:
                producer.produce("copied", each.value(), key=each.key(), partition=each.partition())
                ends[each.partition()] = each.offset() + 1
            places = [TopicPartition("numbers", partition, end) for partition, end in ends.items()]
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 60)
            producer.commit_transaction(60)
            self.transactions += 1

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_HUNG_SECONDS)


# Reading topics


def committed(client: Mapping[str, str], topic: str, partition: int) -> list[Message]:
    """Return all committed records of a partition."""
    consumer = Consumer(
        {
            **client,
            **_QUIET,
            "group.id": "soak-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[Message] = []
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for each in consumer.consume(5000, timeout=1):
                if each.error() is None:
                    found.append(each)
                elif each.error().code() == KafkaError._PARTITION_EOF:
                    return found
        raise TimeoutError(f"{topic}-{partition} does not end")
    finally:
        consumer.close()


def count(client: Mapping[str, str], topic: str, partitions: int = PARTITIONS) -> int:
    """Return the number of committed records of a topic; 0 if it does not exist yet."""
    try:
        return sum(len(committed(client, topic, each)) for each in range(partitions))
    except KafkaException:
        return 0


def numbers_of(messages: list[Message]) -> list[int]:
    return [json.loads(each.value())["N"] for each in messages]


class Ends:
    """End offsets of topics, which count control records too: cheap enough for a progress line."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._consumer = Consumer({**client, **_QUIET, "group.id": "soak-ends"})

    def of(self, topic: str, partitions: int = PARTITIONS) -> int:
        total = 0
        for partition in range(partitions):
            try:
                total += self._consumer.get_watermark_offsets(TopicPartition(topic, partition), 5)[1]
            except KafkaException:
                continue
        return total

    def close(self) -> None:
        self._consumer.close()


# The verdict


def wrong_numbers(client: Mapping[str, str], target: Mapping[str, str], feeder: Feeder) -> Iterator[str]:
    """Check the numbers in the topic itself, in the transactional copy, in SQL and in the mirror."""
    yield from feeder.failed[:3]
    numbers = {each: numbers_of(committed(client, "numbers", each)) for each in range(PARTITIONS)}
    for partition, found in numbers.items():
        wanted = sorted(each for each in feeder.acknowledged if partition_of(each) == partition)
        yield from _difference(f"numbers-{partition}", found, wanted)
        copied = numbers_of(committed(client, "copied", partition))
        yield from _difference(f"copied-{partition}", copied, found)
        mirrored = numbers_of(committed(target, "soak.numbers", partition))
        yield from _difference(f"mirrored-{partition}", mirrored, found)
    every = sorted(number for found in numbers.values() for number in found)
    passed = committed(client, "passed", 0)
    yield from _difference("passed (SQL)", sorted(numbers_of(passed)), every)
    last: dict[str, int] = defaultdict(lambda: -1)
    for each in passed:
        key, number = (each.key() or b"").decode(), json.loads(each.value())["N"]
        if number <= last[key]:
            yield f"passed (SQL): {number} comes after {last[key]} of {key}"
        last[key] = number
    counts = {
        (each.key() or b"").decode(): json.loads(each.value()) for each in committed(client, "counts", 0)
    }
    for key in {key_of(number) for number in every}:
        mine = [number for number in every if key_of(number) == key]
        wanted_row = {"C": len(mine), "S": sum(mine), "TOP": [max(mine)]}
        if counts.get(key) != wanted_row:
            yield f"counts (SQL): {key} has {counts.get(key)} and should have {wanted_row}"


def wrong_sequence(client: Mapping[str, str], database: Path) -> Iterator[str]:
    """Check the counting connector's topic, and the table that the JDBC sink made of it."""
    found = [
        json.loads(each.value())["payload"]["seqno"]
        for partition in range(PARTITIONS)
        for each in committed(client, "verified", partition)
    ]
    yield from _difference("verified (source connector)", sorted(found), list(range(len(found))))
    with sqlite3.connect(database) as connection:
        stored = [row[0] for row in connection.execute("SELECT seqno FROM verified ORDER BY seqno")]
    connection.close()
    yield from _difference("verified (sink connector)", stored, sorted(found))


def rows_stored(database: Path) -> int:
    if not database.exists():
        return 0
    connection = sqlite3.connect(database)
    try:
        return int(connection.execute("SELECT COUNT(*) FROM verified").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def _difference(what: str, found: list[int], wanted: list[int]) -> Iterator[str]:
    if found == wanted:
        return
    have, want = Counter(found), Counter(wanted)
    lost, more = want - have, have - want
    if lost:
        yield f"{what}: {lost.total()} records are lost, such as {sorted(lost)[:5]}"
    if more:
        yield f"{what}: {more.total()} records are there too often, such as {sorted(more)[:5]}"
    if not lost and not more:
        yield f"{what}: the order is different"
