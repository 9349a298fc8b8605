"""KIP-932 share groups with a real client: each record goes to one member, and again until accepted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ottla.testing import Broker

pytestmark = pytest.mark.timeout(300)

# Locks last half a minute unless a case wants them to expire, because a busy machine is slow.
CONFIG = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "3",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(config=CONFIG, data=tmp_path) as broker:
        broker.create_topic("jobs", partitions=1)
        begin_at(broker, "earliest")
        yield broker


def begin_at(broker: Broker, where: str) -> None:
    configure(broker, "share.auto.offset.reset", where)


def configure(broker: Broker, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, "g", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


def produce(broker: Broker, numbers: range) -> set[bytes]:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce("jobs", str(number))
    producer.flush()
    return {str(number).encode() for number in numbers}


class Workers:
    """Share consumers polled in turn; `seen` counts every value received by any of them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.consumers: list[ShareConsumer] = []
        self.seen: Counter[bytes] = Counter()
        self.messages: list[tuple[ShareConsumer, Message]] = []

    def add(self, *, explicit: bool = False) -> ShareConsumer:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "g",
                "share.acknowledgement.mode": "explicit" if explicit else "implicit",
            }
        )
        consumer.subscribe(["jobs"])
        self.consumers.append(consumer)
        return consumer

    def until(
        self,
        condition: Callable[[], bool],
        acknowledge: Callable[[ShareConsumer, Message], None] = lambda consumer, message: None,
    ) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, f"seen: {self.seen}"
            self.poll(acknowledge)

    def poll(
        self, acknowledge: Callable[[ShareConsumer, Message], None] = lambda consumer, message: None
    ) -> None:
        for consumer in self.consumers:
            for message in consumer.poll(0.1):
                assert message.error() is None
                self.seen[message.value()] += 1
                self.messages.append((consumer, message))
                acknowledge(consumer, message)

    def until_seen(self, count: int) -> None:
        self.until(lambda: len(self.seen) == count)

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()
        self.consumers.clear()


@pytest.fixture
def workers(broker: Broker) -> Iterator[Workers]:
    workers = Workers(broker)
    yield workers
    workers.close()


def test_each_record_goes_to_one_member(broker: Broker, workers: Workers) -> None:
    for _ in range(3):
        workers.add()
    sent: set[bytes] = set()
    for begin in range(0, 300, 10):
        sent |= produce(broker, range(begin, begin + 10))
        workers.until_seen(begin + 10)
    assert workers.seen == Counter(sent)
    assert len({id(consumer) for consumer, _ in workers.messages}) == 3, "all share one partition"


def test_a_rejected_record_is_gone_and_a_released_one_comes_again_until_the_limit(
    broker: Broker, workers: Workers
) -> None:
    produce(broker, range(3))
    fates = {b"0": AcknowledgeType.ACCEPT, b"1": AcknowledgeType.REJECT, b"2": AcknowledgeType.RELEASE}
    workers.add(explicit=True)
    workers.until(
        lambda: workers.seen[b"2"] == 3,
        lambda consumer, message: consumer.acknowledge(message, fates[message.value()]),
    )
    produce(broker, range(10, 11))
    workers.until(lambda: workers.seen[b"10"] == 1, lambda consumer, message: consumer.acknowledge(message))
    assert workers.seen == Counter({b"0": 1, b"1": 1, b"2": 3, b"10": 1})


def test_a_lock_that_times_out_gives_the_record_to_another(broker: Broker, workers: Workers) -> None:
    configure(broker, "share.record.lock.duration.ms", "1000")
    produce(broker, range(4))
    slow = workers.add(explicit=True)
    workers.until(lambda: len(workers.seen) == 4)
    workers.consumers.remove(slow)
    configure(broker, "share.record.lock.duration.ms", "30000")  # the next member has enough time
    workers.add()
    workers.until(lambda: min(workers.seen.values()) == 2)
    assert set(workers.seen.values()) == {2}


def test_a_member_that_closes_gives_back_what_it_had_locked(broker: Broker, workers: Workers) -> None:
    produce(broker, range(4))
    first = workers.add(explicit=True)
    workers.until(lambda: len(workers.seen) == 4)
    workers.consumers.remove(first)
    first.close()
    workers.add()
    begun = time.monotonic()
    workers.until(lambda: min(workers.seen.values()) == 2)
    assert time.monotonic() - begun < 25, "nobody waits for the locks, which are for half a minute"


def test_a_restart_of_the_broker_brings_nothing_back_that_was_accepted(
    broker: Broker, workers: Workers
) -> None:
    sent = produce(broker, range(40))
    consumer = workers.add()
    workers.until(lambda: len(workers.seen) == 40)
    assert not any((consumer.commit_sync() or {}).values())
    broker.restart()
    sent |= produce(broker, range(40, 80))
    workers.until(lambda: len(workers.seen) == 80)
    assert workers.seen == Counter(sent)


def test_a_group_begins_at_the_end_unless_told_otherwise(broker: Broker, workers: Workers) -> None:
    begin_at(broker, "latest")
    produce(broker, range(4))
    workers.add()
    sent: set[bytes] = set()
    deadline = time.monotonic() + 60
    while not workers.seen:
        assert time.monotonic() < deadline, "nothing comes"
        # The first member initialises the group's start offset, so more records have to follow.
        sent |= produce(broker, range(len(sent) + 4, len(sent) + 5))
        workers.poll()
    assert workers.seen.keys() <= sent


def test_a_group_that_reads_committed_records_sees_nothing_of_an_aborted_transaction(
    broker: Broker, workers: Workers
) -> None:
    configure(broker, "share.isolation.level", "read_committed")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.produce("jobs", str(number))
        producer.flush()
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    workers.add()
    workers.until(lambda: len(workers.seen) == 3)
    sent = produce(broker, range(10, 12))
    workers.until(lambda: len(workers.seen) == 5)
    assert workers.seen == Counter({b"0", b"2", b"4"} | sent)
