"""Promise: consume-transform-produce with transactions is exactly once, whichever process is killed, at any time."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess

PARTITIONS = 4
OPTIONS = [
    f"--set={name}={value}"
    for name, value in {
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    }.items()
]
QUIET = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 200,
    "logger": None,
    "error_cb": lambda _: None,
}


def fill(bootstrap_servers: str, topic: str, count: int) -> Counter[bytes]:
    """Write committed values with aborted values in between."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "transactional.id": "filler", "linger.ms": 5, **QUIET}
    )
    producer.init_transactions(30)
    committed: Counter[bytes] = Counter()
    while committed.total() < count:
        values = [uuid.uuid4().bytes for _ in range(min(200, count - committed.total()))]
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % PARTITIONS)
        if random.random() < 0.2:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed.update(values)
    return committed


PYTHON_COPIER = (sys.executable, "-m", "tests.broker.transactions.copier")


class Copier:
    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Reader:
    """Reads the committed records of a topic from the beginning, across any number of broker restarts."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"reader-{uuid.uuid4()}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        self.seen: Counter[bytes] = Counter()

    def read(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for message in self._consumer.consume(500, 0.1):
                if not message.error():
                    self.seen[message.value()] += 1

    def close(self) -> None:
        self._consumer.close()


def copy_under_fire(
    data: Path, *, records: int, kills: int, seconds: float, command: Sequence[str] = PYTHON_COPIER
) -> None:
    with BrokerProcess(data, OPTIONS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "logger": None})
        topics = [NewTopic(name, PARTITIONS, 1) for name in ("source", "target")]
        for created in admin.create_topics(topics).values():
            created.result(30)
        written = fill(broker.bootstrap_servers, "source", records)
        arguments = [*command, broker.bootstrap_servers, "source", "target", "copiers"]
        copiers = [Copier([*arguments, f"copier-{number}"]) for number in range(2)]
        live = Reader(broker.bootstrap_servers, "target")
        try:
            for number in range(kills):
                live.read(random.uniform(0.5, 2.0))
                if number % 3 == 2:
                    copier = random.choice(copiers)
                    copier.kill()
                    copier.start()
                else:
                    broker.kill()
                    broker.start()
            deadline = time.monotonic() + seconds
            while live.seen.total() < records:
                assert time.monotonic() < deadline, f"{live.seen.total()} of {records} were copied"
                live.read(0.5)
            live.read(3)  # time for duplicates to arrive
        finally:
            live.close()
            for copier in copiers:
                copier.kill()
        again = Reader(broker.bootstrap_servers, "target")
        deadline = time.monotonic() + 60
        while again.seen.total() < records and time.monotonic() < deadline:
            again.read(0.5)
        again.close()
        assert live.seen == written, "what was seen while it happened"
        assert again.seen == written, "what is there afterwards"


def test_copying_is_exactly_once_while_broker_and_copiers_are_killed(tmp_path: Path) -> None:
    copy_under_fire(tmp_path, records=3_000, kills=4, seconds=80)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_copying_is_exactly_once_over_many_kills(tmp_path: Path) -> None:
    copy_under_fire(tmp_path, records=100_000, kills=60, seconds=300)
