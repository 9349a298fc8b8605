"""KIP-848 consumer groups with a real client: the broker assigns partitions, and no record is lost or duplicated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient

from ottla.testing import Broker

pytestmark = pytest.mark.timeout(300)

SESSION_MS = 1_500
CONFIG = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(config=CONFIG, data=tmp_path) as broker:
        broker.create_topic("t", partitions=6)
        yield broker


class Members:
    """Consumers polled together; `seen` holds every record received by any of them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.consumers: list[Consumer] = []
        self.seen: list[bytes] = []

    def add(self, *topics: str, **settings: object) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        consumer.subscribe(list(topics) or ["t"])
        self.consumers.append(consumer)
        return consumer

    def add_classic(self) -> Consumer:
        return self.add(group_protocol="classic", session_timeout_ms=6_000, heartbeat_interval_ms=200)

    def close(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def close_all(self) -> None:
        for consumer in list(self.consumers):
            self.close(consumer)

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.sizes()}, {len(self.seen)} records seen"
            for consumer in self.consumers:
                message = consumer.poll(0.02)
                if message is not None and message.error() is None:
                    self.seen.append(message.value())

    def sizes(self) -> list[int]:
        return sorted(len(consumer.assignment()) for consumer in self.consumers)

    def until_shared(self, *sizes: int) -> None:
        self.until(lambda: self.sizes() == list(sizes), f"waiting for {sizes}")


@pytest.fixture
def members(broker: Broker) -> Iterator[Members]:
    members = Members(broker)
    yield members
    members.close_all()


def produce(broker: Broker, values: Sequence[int], topic: str = "t", partitions: int = 6) -> set[bytes]:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, str(value), partition=value % partitions)
    producer.flush()
    return {str(value).encode() for value in values}


def test_partitions_spread_as_members_come_and_go(broker: Broker, members: Members) -> None:
    members.add()
    members.until_shared(6)
    members.add()
    members.until_shared(3, 3)
    third = members.add()
    members.until_shared(2, 2, 2)
    members.close(third)
    members.until_shared(3, 3)
    sent = produce(broker, range(120))
    members.until(lambda: len(members.seen) >= 120, "all records arrive")
    assert sorted(members.seen) == sorted(sent)


def test_the_partitions_of_a_killed_member_go_to_the_others(broker: Broker, members: Members) -> None:
    members.add()
    members.add()
    program = (
        "import sys; from confluent_kafka import Consumer\n"
        f"c = Consumer({{'bootstrap.servers': {broker.bootstrap_servers!r}, 'group.id': 'g',"
        " 'group.protocol': 'consumer'})\n"
        "c.subscribe(['t'])\n"
        "while True: c.poll(0.1)\n"
    )
    victim = subprocess.Popen([sys.executable, "-c", program])
    try:
        members.until_shared(2, 2)
    finally:
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
    members.until_shared(3, 3)


def test_a_group_goes_on_where_it_had_committed(broker: Broker, members: Members) -> None:
    first = produce(broker, range(60))
    members.add()
    members.until(lambda: len(members.seen) == 60, "the first records arrive")
    members.close_all()
    second = produce(broker, range(60, 120))
    members.add()
    members.until(lambda: len(members.seen) >= 120, "the others arrive")
    assert sorted(members.seen) == sorted(first | second)


def test_a_restart_of_the_broker_costs_the_group_nothing(broker: Broker, members: Members) -> None:
    sent = produce(broker, range(60))
    members.add()
    members.add()
    members.until(lambda: len(members.seen) == 60 and members.sizes() == [3, 3], "the first records arrive")
    for consumer in members.consumers:
        consumer.commit(asynchronous=False)
    broker.restart()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert len(admin.describe_consumer_groups(["g"])["g"].result().members) == 2
    sent |= produce(broker, range(60, 120))
    members.until(lambda: len(members.seen) >= 120, "the records after the restart arrive")
    members.until_shared(3, 3)
    assert sorted(members.seen) == sorted(sent)


def test_a_static_member_that_restarts_gets_its_partitions_back(broker: Broker, members: Members) -> None:
    members.add()
    static = members.add(group_instance_id="one")
    members.until_shared(3, 3)
    held = {partition.partition for partition in static.assignment()}
    members.close(static)
    back = members.add(group_instance_id="one")
    members.until_shared(3, 3)
    assert {partition.partition for partition in back.assignment()} == held


def test_a_pattern_is_matched_by_the_broker_and_follows_new_topics(broker: Broker, members: Members) -> None:
    broker.create_topic("logs-a", partitions=2)
    members.add("^logs-.*")
    members.until_shared(2)
    broker.create_topic("logs-b", partitions=3)
    members.until_shared(5)


def test_new_partitions_are_assigned(broker: Broker, members: Members) -> None:
    from confluent_kafka.admin import NewPartitions

    members.add()
    members.until_shared(6)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions("t", 8)]).values():
        future.result()
    members.until_shared(8)


def test_a_live_classic_group_is_upgraded_and_downgraded_without_losing_its_place(
    broker: Broker, members: Members
) -> None:
    sent = produce(broker, range(60))
    old = members.add_classic()
    members.until(lambda: len(members.seen) == 60, "the classic member reads")
    new = members.add()
    members.until_shared(3, 3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert admin.describe_consumer_groups(["g"])["g"].result().type is ConsumerGroupType.CONSUMER
    sent |= produce(broker, range(60, 120))
    members.until(lambda: len(members.seen) >= 120, "both read")
    members.close(old)
    members.until_shared(6)
    sent |= produce(broker, range(120, 180))
    members.until(lambda: len(members.seen) >= 180, "the new member reads alone")
    back = members.add_classic()
    members.until_shared(3, 3)
    members.close(new)
    members.until_shared(6)
    sent |= produce(broker, range(180, 240))
    members.until(lambda: len(members.seen) >= 240, "the classic member reads alone again")
    assert sorted(members.seen) == sorted(sent)
    described = admin.describe_consumer_groups(["g"])["g"].result()
    assert (described.type, described.state) == (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE)
    assert len(back.assignment()) == 6


def test_administration_covers_both_kinds_of_group(broker: Broker, members: Members) -> None:
    members.add()
    members.until_shared(6)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    listed = admin.list_consumer_groups().result()
    assert [(g.group_id, g.type) for g in listed.valid] == [("g", ConsumerGroupType.CONSUMER)]
    with pytest.raises(Exception, match=r"NON_EMPTY_GROUP|not empty"):
        admin.delete_consumer_groups(["g"])["g"].result()
    members.close_all()
    admin.delete_consumer_groups(["g"])["g"].result()
    assert admin.list_consumer_groups().result().valid == []
