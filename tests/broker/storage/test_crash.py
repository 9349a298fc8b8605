"""Promise: acknowledged records exist once and in order, whenever the broker is killed."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess

PARTITIONS = 4


class Load:
    """An idempotent acks=all producer that never stops, with its acknowledgements."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 10,
                "logger": None,
                "error_cb": lambda _: None,
            }
        )
        self.acknowledged: dict[int, list[tuple[int, int]]] = defaultdict(
            list
        )  # partition → (offset, number)
        self.failed: list[str] = []
        self._next = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()].append((message.offset(), int(message.value())))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    self._topic,
                    value=str(self._next),
                    partition=self._next % PARTITIONS,
                    on_delivery=self._delivered,
                )
                self._next += 1
            except BufferError:
                self._producer.poll(0.05)
            if self._next % 50 == 0:
                self._producer.poll(0.002)

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


def consume_everything(bootstrap_servers: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "check", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    open_partitions = set(range(PARTITIONS))
    deadline = time.monotonic() + 60
    while open_partitions:
        assert time.monotonic() < deadline, f"partitions {open_partitions} never ended"
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                found[message.partition()].append((message.offset(), int(message.value())))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
    consumer.close()
    return found


def run_rounds(directory: Path, rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    # Small segments, so that the kills also hit segment rolls.
    broker = BrokerProcess(directory, ["--set", "log.segment.bytes=1048576"])
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("events", PARTITIONS)])["events"].result(30)
        load = Load(broker.bootstrap_servers, "events")
        try:
            for _ in range(rounds):
                target = load.count + rng.randrange(1, 5000)
                deadline = time.monotonic() + 60
                while load.count < target:
                    assert time.monotonic() < deadline, "the producer does not get on"
                    time.sleep(0.001)
                broker.kill()
                broker.start()
        finally:
            load.finish()
        found = consume_everything(broker.bootstrap_servers, "events")

    assert not load.failed
    for partition in range(PARTITIONS):
        offsets = [offset for offset, _ in found[partition]]
        numbers = [number for _, number in found[partition]]
        assert offsets == list(range(len(offsets))), "offsets have no gaps"
        assert numbers == sorted(set(numbers)), "every record once and in order"
        assert set(load.acknowledged[partition]) <= set(found[partition]), "nothing acknowledged is lost"


def test_acknowledged_records_survive_kill_9(tmp_path: Path) -> None:
    run_rounds(tmp_path, rounds=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_acknowledged_records_survive_thirty_kills(tmp_path: Path) -> None:
    run_rounds(tmp_path, rounds=30, seed=2)
