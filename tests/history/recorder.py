"""Concurrent clients in threads, the broker's faults, and the history of the clients' observations."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
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

from tests.broker_process import BrokerProcess
from tests.history.checker import History, Outcome, Poll, Reposition, Send, Transaction

TOPIC = "t"
PARTITIONS = 3
_QUIET = {"log_level": 0, "error_cb": lambda _: None, "reconnect.backoff.max.ms": 200}


class Recorder:
    """Producers and group members in threads, whose observations become the history."""

    def __init__(self, bootstrap_servers: str, **settings: str) -> None:
        """Create the clients. `settings` are librdkafka's, for all of them."""
        self.history = History()
        self._bootstrap = {"bootstrap.servers": bootstrap_servers, **settings, **_QUIET}
        self._lock = threading.Lock()
        self._stop_sending = threading.Event()
        self._stop_reading = threading.Event()
        self._producers: list[threading.Thread] = []
        self._consumers: list[threading.Thread] = []
        self.acknowledged: list[tuple[float, int]] = []  # (time, partition)

    def note(self, *events: Send | Poll | Reposition | Transaction) -> None:
        with self._lock:
            self.history.events += events

    def start(self, producers: int, consumers: int, *, members: int = 0, pause: float = 0.001) -> None:
        """Start the clients. `consumers` form a classic group, `members` a KIP-848 group; `pause` separates sends."""
        for number in range(producers):
            work = threading.Thread(target=self._produce, args=(f"producer-{number}", number, pause))
            self._producers.append(work)
        newer = {"group.protocol": "consumer", "session.timeout.ms": None}
        for kind, count, settings in (("consumer", consumers, {}), ("member", members, newer)):
            for number in range(count):
                # The group and its thread are named after its consumers.
                names = (f"{kind}-{number}", kind)
                work = threading.Thread(target=self._consume, args=names, kwargs=settings, name=kind)
                self._consumers.append(work)
        for thread in (*self._producers, *self._consumers):
            thread.start()

    def _produce(self, name: str, seed: int, pause: float) -> None:
        rng = random.Random(seed)
        producer = self._new_producer()

        def delivered(error: KafkaError | None, message: Message) -> None:
            value = message.value().decode()
            partition = message.partition()
            if error is None:
                self.acknowledged.append((time.monotonic(), partition))
                self.note(Send(name, partition, value, Outcome.OK, message.offset()))
            else:
                self.note(Send(name, partition, value, Outcome.UNKNOWN))

        number = 0
        while not self._stop_sending.is_set():
            try:
                producer.produce(
                    TOPIC, f"{name}-{number}", partition=rng.randrange(PARTITIONS), on_delivery=delivered
                )
                number += 1
                producer.poll(0)
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                producer = self.producer_after(error)
            time.sleep(pause)
        try:
            assert producer.flush(60) == 0
        except KafkaException as error:
            self.producer_after(error)

    def _new_producer(self) -> Producer:
        return Producer(
            {**self._bootstrap, "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 60_000}
        )

    def producer_after(self, error: KafkaException) -> Producer:
        """Fail: no producer should give up."""
        raise error

    def _consumer(self, group: str, **settings: Any) -> Consumer:
        asked = {
            **self._bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "enable.partition.eof": True,
            **settings,
        }
        return Consumer({key: value for key, value in asked.items() if value is not None})

    def _consume(self, name: str, group: str, **settings: Any) -> None:
        """Poll as a group member, whose position may jump at each rebalance."""
        consumer = self._consumer(group, **settings)

        def assigned(_: Consumer, __: object) -> None:
            self.note(Reposition(name))

        consumer.subscribe([TOPIC], on_assign=assigned)
        while not self._stop_reading.is_set():
            self.note(Poll(name, _records(consumer.consume(500, timeout=0.1))))
        consumer.close()

    def stop_sending(self) -> None:
        self._stop_sending.set()
        for thread in self._producers:
            thread.join()

    def stop_reading(self) -> None:
        self._stop_reading.set()
        for thread in self._consumers:
            thread.join()

    def wait_until_read(self, seconds: float = 60) -> None:
        """Wait until every group has seen all acknowledged records."""

        def missing(consumers: str) -> int:
            with self._lock:
                events = list(self.history.events)
            sent = {
                event.value for event in events if isinstance(event, Send) and event.outcome is Outcome.OK
            }
            for event in events:
                if isinstance(event, Poll) and event.consumer.startswith(consumers):
                    sent.difference_update(value for _, _, value in event.records)
            return len(sent)

        for consumers in {thread.name for thread in self._consumers}:
            wait_until(
                lambda of=consumers: not missing(of),
                f"the group of each {consumers} has read all",
                seconds,
                every=0.5,
            )

    def read_to_the_end(self) -> None:
        """Read everything once more with a single consumer, to complete the history."""
        self.note(Reposition("reader"))
        reader = self._consumer("reader")
        reader.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        ends: dict[int, int] = {}  # the current ends: under load a reader may never reach the end
        deadline = time.monotonic() + 60
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, "the log does not end"
            for partition in set(range(PARTITIONS)) - ends.keys():
                with contextlib.suppress(KafkaException):
                    _, ends[partition] = reader.get_watermark_offsets(TopicPartition(TOPIC, partition), 1)
            messages = reader.consume(1000, timeout=0.2)
            self.note(Poll("reader", _records(messages)))
            for message in messages:
                error, partition = message.error(), message.partition()
                if error is None:
                    is_end = message.offset() + 1 >= ends.get(partition, sys.maxsize)
                else:
                    is_end = error.code() == KafkaError._PARTITION_EOF
                if is_end:
                    ended.add(partition)
        reader.close()


def _records(messages: list[Message]) -> tuple[tuple[int, int, str], ...]:
    return tuple(
        (message.partition(), message.offset(), message.value().decode())
        for message in messages
        if message.error() is None
    )


class Faults:
    """The periods of faults."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.times: list[tuple[float, float]] = []

    def between(self, begin: float, end: float) -> bool:
        """Return True if any fault overlaps the period."""
        return any(start <= end and begin <= stop for start, stop in self.times)


class BrokerFaults(Faults):
    """Kills and pauses of a broker."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        super().__init__(seed)
        self._broker = broker

    def strike(self) -> None:
        begun = time.monotonic()
        if self.rng.random() < 0.6:
            self._broker.kill()
            self._broker.start()
        else:
            os.kill(self._broker.pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(0.05, 1.0))
            os.kill(self._broker.pid, signal.SIGCONT)
        self.times.append((begun, time.monotonic()))


def wait_for_progress(progress: Callable[[], int], steps: int) -> None:
    wanted = progress() + steps
    wait_until(lambda: progress() >= wanted, "the clients get on")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60, *, every: float = 0.02) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(every)


def sends(history: History, outcome: Outcome) -> Sequence[Send]:
    return [event for event in history.events if isinstance(event, Send) and event.outcome is outcome]
