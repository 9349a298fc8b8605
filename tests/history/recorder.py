"""Concurrent clients in threads, the faults that the broker suffers, and the history of what the clients saw."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.broker_process import BrokerProcess
from tests.history.checker import History, Outcome, Poll, Reposition, Send, Transaction

TOPIC = "t"
PARTITIONS = 3
_QUIET = {"logger": None, "error_cb": lambda _: None, "reconnect.backoff.max.ms": 200}


class Recorder:
    """Producers and members of a group in threads; what they see becomes the history."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.history = History()
        self._bootstrap = {"bootstrap.servers": bootstrap_servers, **_QUIET}
        self._lock = threading.Lock()
        self._stop_sending = threading.Event()
        self._stop_reading = threading.Event()
        self._producers: list[threading.Thread] = []
        self._consumers: list[threading.Thread] = []

    def note(self, *events: Send | Poll | Reposition | Transaction) -> None:
        with self._lock:
            self.history.events += events

    def start(self, producers: int, consumers: int) -> None:
        for number in range(producers):
            work = threading.Thread(target=self._produce, args=(f"producer-{number}", number))
            self._producers.append(work)
        for number in range(consumers):
            self._consumers.append(threading.Thread(target=self._consume, args=(f"consumer-{number}",)))
        for thread in (*self._producers, *self._consumers):
            thread.start()

    def _produce(self, name: str, seed: int) -> None:
        rng = random.Random(seed)
        producer = Producer(
            {**self._bootstrap, "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 60_000}
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            value = message.value().decode()
            partition = message.partition()
            if error is None:
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
            except BufferError:
                producer.poll(0.1)
            producer.poll(0.001)
        assert producer.flush(60) == 0

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                **self._bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                "enable.partition.eof": True,
            }
        )

    def _consume(self, name: str) -> None:
        """A member of a group: its position may jump whenever partitions are given out anew."""
        consumer = self._consumer("group")

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

    def read_to_the_end(self) -> None:
        """Everything once more, alone, so that the history knows what is there."""
        reader = self._consumer("reader")
        reader.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, "the log does not end"
            messages = reader.consume(1000, timeout=0.2)
            self.note(Poll("reader", _records(messages)))
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        reader.close()


def _records(messages: list[Message]) -> tuple[tuple[int, int, str], ...]:
    return tuple(
        (message.partition(), message.offset(), message.value().decode())
        for message in messages
        if message.error() is None
    )


class Faults:
    """Kills and pauses of the broker, and when they were."""

    def __init__(self, broker: BrokerProcess, seed: int) -> None:
        self._broker = broker
        self.rng = random.Random(seed)
        self.times: list[tuple[float, float]] = []

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

    def between(self, begin: float, end: float) -> bool:
        """Whether any fault fell into that time, be it in part."""
        return any(start <= end and begin <= stop for start, stop in self.times)


def wait_for_progress(progress: Callable[[], int], steps: int) -> None:
    wanted = progress() + steps
    wait_until(lambda: progress() >= wanted, "the clients get on")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def sends(history: History, outcome: Outcome) -> Sequence[Send]:
    return [event for event in history.events if isinstance(event, Send) and event.outcome is outcome]
