"""Promise: concurrent clients see an honest log while the broker is killed and paused under them."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.history.checker import History, Outcome, Poll, Reposition, Send, check

PARTITIONS = 3
_QUIET = {"logger": None, "error_cb": lambda _: None, "reconnect.backoff.max.ms": 200}


class Recorder:
    """Clients in threads, and the history of what they saw."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.history = History()
        self._bootstrap = {"bootstrap.servers": bootstrap_servers, **_QUIET}
        self._lock = threading.Lock()
        self._stop_sending = threading.Event()
        self._stop_reading = threading.Event()
        self._threads: list[threading.Thread] = []

    def _note(self, event: Send | Poll | Reposition) -> None:
        with self._lock:
            self.history.events.append(event)

    def start(self, producers: int, consumers: int) -> None:
        for number in range(producers):
            self._run(self._produce, f"producer-{number}", number)
        for number in range(consumers):
            self._run(self._consume, f"consumer-{number}")

    def _run(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args)  # type: ignore[arg-type]
        thread.start()
        self._threads.append(thread)

    def _produce(self, name: str, seed: int) -> None:
        rng = random.Random(seed)
        producer = Producer(
            {**self._bootstrap, "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 60_000}
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            value = message.value().decode()
            partition = message.partition()
            if error is None:
                self._note(Send(name, partition, value, Outcome.OK, message.offset()))
            else:
                self._note(Send(name, partition, value, Outcome.UNKNOWN))

        number = 0
        while not self._stop_sending.is_set():
            try:
                producer.produce(
                    "t", f"{name}-{number}", partition=rng.randrange(PARTITIONS), on_delivery=delivered
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
                "session.timeout.ms": 6000,
                "enable.partition.eof": True,
            }
        )

    def _consume(self, name: str) -> None:
        """A member of a group: its position may jump whenever partitions are given out anew."""
        consumer = self._consumer("group")

        def assigned(_: Consumer, __: object) -> None:
            self._note(Reposition(name))

        consumer.subscribe(["t"], on_assign=assigned)
        while not self._stop_reading.is_set():
            self._note(Poll(name, _records(consumer.consume(500, timeout=0.1))))
        consumer.close()

    def finish(self) -> None:
        """Stop sending, then read everything to the end once more, alone."""
        self._stop_sending.set()
        self._stop_reading.set()
        for thread in self._threads:
            thread.join()
        reader = self._consumer("reader")
        reader.assign([TopicPartition("t", partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, "the log does not end"
            messages = reader.consume(1000, timeout=0.2)
            self._note(Poll("reader", _records(messages)))
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


def run(directory: Path, faults: int, seed: int) -> None:
    rng = random.Random(seed)
    with BrokerProcess(directory, ["--set", "log.segment.bytes=1048576"]) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(30)
        recorder = Recorder(broker.bootstrap_servers)
        recorder.start(producers=2, consumers=2)
        try:
            for _ in range(faults):
                seen = len(recorder.history.events)
                deadline = time.monotonic() + 60
                while len(recorder.history.events) < seen + rng.randrange(200, 2000):
                    assert time.monotonic() < deadline, "the clients do not get on"
                    time.sleep(0.01)
                if rng.random() < 0.6:
                    broker.kill()
                    broker.start()
                else:
                    os.kill(broker.pid, signal.SIGSTOP)
                    time.sleep(rng.uniform(0.05, 1.0))
                    os.kill(broker.pid, signal.SIGCONT)
        finally:
            recorder.finish()
    acknowledged = [e for e in recorder.history.events if isinstance(e, Send) and e.outcome is Outcome.OK]
    assert acknowledged
    assert check(recorder.history) == []


def test_clients_see_an_honest_log_under_kill_and_pause(tmp_path: Path) -> None:
    run(tmp_path, faults=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_clients_see_an_honest_log_under_many_kills_and_pauses(tmp_path: Path) -> None:
    run(tmp_path, faults=40, seed=2)
