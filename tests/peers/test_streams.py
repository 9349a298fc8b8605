"""Promise: Kafka Streams counts and joins exactly once, with the classic protocol and as a streams group (KIP-1071),
even when instances and brokers are killed and state has to be restored.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers.apache_kafka import Unavailable, application_classpath, java
from ottla.testing import Broker, Cluster
from tests.broker_process import BrokerProcess

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

APP = Path(__file__).parent / "java" / "StreamsApp.java"
WORDS = ("one", "two", "three")
ORDERS = 20
TOPICS = ("lines", "customers", "orders", "counts", "enriched")
# Brokers set the heartbeat interval and session timeout of streams group members. Short values reveal kills soon.
GROUP_SETTINGS = {
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module", autouse=True)
def streams_is_there() -> None:
    try:
        application_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config=GROUP_SETTINGS) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, partitions=2)
        yield broker


class App:
    """An instance with an empty state directory, which has to restore from the changelog."""

    def __init__(self, bootstrap_servers: str, state: Path, protocol: str) -> None:
        command = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", application_classpath(), str(APP)]
        self.said: list[str] = []
        self.process = subprocess.Popen(
            [*command, bootstrap_servers, str(state), "exactly_once_v2", protocol],
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
def running(bootstrap_servers: str, state: Path, protocol: str) -> Iterator[App]:
    app = App(bootstrap_servers, state, protocol)
    try:
        yield app
    finally:
        app.end(kill=True)


def until(condition: Callable[[], object], what: str, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {seconds:.0f} s"
        time.sleep(0.05)


class Committed:
    """The committed records of a topic, by key."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.values: dict[str, list[bytes]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": topic,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])

    def count(self) -> int:
        for message in self._consumer.consume(500, 0.1):
            if message.error() is not None:
                continue  # a broker is temporarily down
            self.values[message.key().decode()].append(message.value())
        return sum(map(len, self.values.values()))

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_killed_application_goes_on_as_if_nothing_had_been(
    broker: Broker, tmp_path: Path, protocol: str
) -> None:
    servers = broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def write(lines: int) -> None:
        for _ in range(lines):
            producer.produce("lines", " ".join(WORDS))
        producer.flush()

    for number in range(ORDERS):
        producer.produce("customers", f"customer {number}", key=str(number))
    write(200)
    counts, enriched = Committed(servers, "counts"), Committed(servers, "enriched")
    with running(servers, tmp_path / "first", protocol):
        until(lambda: counts.count() > 50, "counts")
        write(100)
    with running(servers, tmp_path / "second", protocol) as app:
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


class Lines:
    """Writes lines, each once, at about six per second, until stopped."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.written = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 0}
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._stopped.wait(0.15):
            self._producer.produce("lines", " ".join(WORDS), on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None
        self.written += 1

    def stop(self) -> int:
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(120) == 0
        return self.written


@contextmanager
def lines_to(bootstrap_servers: str) -> Iterator[Lines]:
    lines = Lines(bootstrap_servers)
    try:
        yield lines
    finally:
        lines.stop()


def create_topics(bootstrap_servers: str, replication_factor: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = [NewTopic(topic, 2, replication_factor) for topic in TOPICS]
    for created in admin.create_topics(wanted).values():
        created.result()


def check_every_count(counts: Committed, lines: int) -> None:
    until(lambda: counts.count() >= lines * len(WORDS), "rest of the counts", 240)
    seen = {word: [int.from_bytes(value) for value in counts.values[word]] for word in WORDS}
    assert seen == {word: list(range(1, lines + 1)) for word in WORDS}, "each count once, in order"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_streams_group_counts_exactly_once_while_instances_and_the_broker_are_killed(
    tmp_path: Path,
) -> None:
    """Two instances with mutual standbys; SIGKILL for one, then the broker, then the other."""
    settings = {**GROUP_SETTINGS, "group.streams.num.standby.replicas": "1"}
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    with BrokerProcess(tmp_path / "broker", options) as broker:
        servers = broker.bootstrap_servers
        create_topics(servers, 1)
        counts = Committed(servers, "counts")

        def more() -> None:
            before = counts.count()
            until(lambda: counts.count() > before + 30, "more counts", 240)

        with lines_to(servers) as lines:
            with running(servers, tmp_path / "second", "streams"):
                with running(servers, tmp_path / "first", "streams"):
                    more()
                more()  # the first was killed
                broker.kill()
                broker.start()
                more()
            with running(servers, tmp_path / "third", "streams"):  # none of the earlier instances is left
                more()
                check_every_count(counts, lines.stop())
        counts.close()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(1200)
def test_a_streams_group_counts_exactly_once_while_each_of_three_brokers_is_killed(tmp_path: Path) -> None:
    """Two instances on three brokers; each broker is killed in turn, with an instance in between."""
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    config = {**GROUP_SETTINGS, "default.replication.factor": "3", "min.insync.replicas": "2"}
    with Cluster(3, config=config) as cluster:
        servers = cluster.bootstrap_servers
        create_topics(servers, 3)
        counts = Committed(servers, "counts")

        def more() -> None:
            before = counts.count()
            until(lambda: counts.count() > before + 30, "more counts", 240)

        with lines_to(servers) as lines, running(servers, tmp_path / "first", "streams"):
            with running(servers, tmp_path / "second", "streams"):
                more()
                for broker_id in (0, 1):
                    cluster.kill(broker_id)
                    more()
                    cluster.restart(broker_id)
                    for topic in TOPICS:
                        for partition in (0, 1):
                            cluster.wait_for_isr(topic, {0, 1, 2}, partition)
            cluster.kill(2)  # and the second instance was killed as well
            more()
            cluster.restart(2)
            check_every_count(counts, lines.stop())
        counts.close()
