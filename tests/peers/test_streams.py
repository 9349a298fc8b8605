"""Promise: Kafka Streams counts and joins exactly once, also when it is killed and has to fetch its state again."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.apache_kafka import Unavailable, application_classpath, java
from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

APP = Path(__file__).parent / "java" / "StreamsApp.java"
WORDS = ("one", "two", "three")
ORDERS = 20


@pytest.fixture(scope="module", autouse=True)
def streams_is_there() -> None:
    try:
        application_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic in ("lines", "customers", "orders", "counts", "enriched"):
            broker.create_topic(topic, partitions=2)
        yield broker


class App:
    """One instance, with a state directory of its own: it has nothing but the changelog to begin with."""

    def __init__(self, broker: Broker, state: Path) -> None:
        command = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", application_classpath(), str(APP)]
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [*command, broker.bootstrap_servers, str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(line.strip() for line in self.process.stdout)

    def stored(self, word: str) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        until(lambda: any(line.startswith(f"{word}=") for line in self.said), "an answer from the store")
        return int(next(line for line in self.said if line.startswith(f"{word}=")).partition("=")[2])

    def end(self, *, kill: bool) -> None:
        if kill:
            self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        self._listener.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running(broker: Broker, state: Path) -> Iterator[App]:
    app = App(broker, state)
    try:
        yield app
    finally:
        app.end(kill=True)


def until(condition: Callable[[], object], what: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds:.0f} s"
        time.sleep(0.05)


class Committed:
    """What readers of committed records see of a topic, by key."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.values: dict[str, list[bytes]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": topic,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])

    def count(self) -> int:
        for message in self._consumer.consume(500, 0.1):
            assert message.error() is None
            self.values[message.key().decode()].append(message.value())
        return sum(map(len, self.values.values()))

    def close(self) -> None:
        self._consumer.close()


def test_a_killed_application_goes_on_as_if_nothing_had_been(broker: Broker, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def write(lines: int) -> None:
        for _ in range(lines):
            producer.produce("lines", " ".join(WORDS))
        producer.flush()

    for number in range(ORDERS):
        producer.produce("customers", f"customer {number}", key=str(number))
    write(200)
    counts, enriched = Committed(broker, "counts"), Committed(broker, "enriched")
    with running(broker, tmp_path / "first"):
        until(lambda: counts.count() > 50, "counts")
        write(100)
    with running(broker, tmp_path / "second") as app:
        write(100)
        for number in range(ORDERS):
            producer.produce("orders", f"order {number}", key=str(number))
        producer.flush()
        until(lambda: counts.count() >= 400 * len(WORDS), "rest of the counts")
        until(lambda: enriched.count() >= ORDERS, "joined orders")
        assert app.stored("two") == 400
        app.end(kill=False)
    seen = {word: [int.from_bytes(value) for value in counts.values[word]] for word in WORDS}
    assert seen == {word: list(range(1, 401)) for word in WORDS}, "each count once, in order"
    expected = {str(n): [f"order {n} for customer {n}".encode()] for n in range(ORDERS)}
    assert enriched.values == expected
    counts.close()
    enriched.close()
