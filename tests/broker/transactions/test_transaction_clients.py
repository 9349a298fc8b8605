"""Transactions with the Python clients, each of which uses its own protocol versions."""

from __future__ import annotations

import asyncio
import time
import uuid
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.testing import Broker

with warnings.catch_warnings():
    # kafka-python parses its message definitions with a call that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.errors

# Modules that kafka-python imports lazily
pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"t-{uuid.uuid4()}"
    broker.create_topic(name, 2)
    return name


def read_all(broker: Broker, topic: str, isolation: str) -> list[bytes]:
    """Return every value of both partitions, sorted, as read by confluent-kafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"g-{uuid.uuid4()}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "logger": None,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    values, ended = [], set()
    while len(ended) < 2:
        message = consumer.poll(20)
        assert message is not None, "no end of the partition"
        if message.error():
            ended.add(message.partition())
        else:
            values.append(message.value())
    consumer.close()
    return sorted(values)


def confluent_producer(broker: Broker, transactional_id: str, **config: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "logger": None,
            "error_cb": lambda _: None,
            **config,
        }
    )


# confluent-kafka


def test_confluent_commits_and_aborts(broker: Broker, topic: str) -> None:
    producer = confluent_producer(broker, f"x-{topic}")
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, f"{number}.{partition}", partition=partition)
        if number % 2:
            producer.flush(20)
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    committed = sorted(f"{number}.{partition}".encode() for number in (0, 2, 4) for partition in (0, 1))
    assert read_all(broker, topic, "read_committed") == committed
    assert len(read_all(broker, topic, "read_uncommitted")) == 12


def test_confluent_fences(broker: Broker, topic: str) -> None:
    first = confluent_producer(broker, f"x-{topic}")
    first.init_transactions(20)
    first.begin_transaction()
    first.produce(topic, "zombie", partition=0)
    first.flush(20)
    second = confluent_producer(broker, f"x-{topic}")
    second.init_transactions(20)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(20)
    assert fenced.value.args[0].fatal()
    second.begin_transaction()
    second.produce(topic, "alive", partition=0)
    second.commit_transaction(20)
    assert read_all(broker, topic, "read_committed") == [b"alive"]


def test_confluent_sends_offsets_with_the_transaction(broker: Broker, topic: str) -> None:
    group = f"g-{topic}"
    for number in range(4):
        broker.produce(topic, b"%d" % number)
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "logger": None,
    }
    producer = confluent_producer(broker, f"x-{topic}")
    producer.init_transactions(20)
    consumer = Consumer(config)
    consumer.subscribe([topic])
    seen = []
    while len(seen) < 2:
        message = consumer.poll(20)
        assert message is not None
        assert not message.error()
        seen.append(message)
    for commit, expected in ((False, -1001), (True, 2)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, 2)], consumer.consumer_group_metadata(), 20
        )
        if commit:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
        (position,) = consumer.committed([TopicPartition(topic, 0)], 20)
        assert position.offset == expected
    consumer.close()


def test_a_producer_that_left_is_aborted_by_its_timeout(broker: Broker, topic: str) -> None:
    producer = confluent_producer(broker, f"x-{topic}", **{"transaction.timeout.ms": 1000})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, "left behind", partition=0)
    producer.flush(20)
    broker.produce(topic, b"behind it")
    deadline = time.monotonic() + 60
    while read_all(broker, topic, "read_committed") != [b"behind it"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)


# aiokafka


async def aio_read(broker: Broker, topic: str, isolation: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([AioTopicPartition(topic, 0), AioTopicPartition(topic, 1)])
        values: list[bytes] = []
        while len(values) < count:
            batches = await asyncio.wait_for(consumer.getmany(timeout_ms=500), 20)
            values += [record.value for records in batches.values() for record in records]
        return sorted(values)
    finally:
        await consumer.stop()


def test_aiokafka_commits_aborts_and_sends_offsets(broker: Broker, topic: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id=f"x-{topic}", linger_ms=0
        )
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"one", partition=0)
                await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): 7}, f"g-{topic}")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"never", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"two", partition=1)
        finally:
            await producer.stop()
        assert await aio_read(broker, topic, "read_committed", 2) == [b"one", b"two"]
        assert await aio_read(broker, topic, "read_uncommitted", 3) == [b"never", b"one", b"two"]
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=f"g-{topic}")
        await consumer.start()
        assert await consumer.committed(AioTopicPartition(topic, 0)) == 7
        await consumer.stop()

    asyncio.run(run())


def test_aiokafka_is_fenced(broker: Broker, topic: str) -> None:
    async def run() -> None:
        def make() -> AIOKafkaProducer:
            return AIOKafkaProducer(
                bootstrap_servers=broker.bootstrap_servers, transactional_id=f"x-{topic}", linger_ms=0
            )

        first, second = make(), make()
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(topic, b"zombie", partition=0)
        await second.start()
        with pytest.raises(ProducerFenced):
            await first.commit_transaction()
        async with second.transaction():
            await second.send_and_wait(topic, b"alive", partition=0)
        await second.stop()
        await first.stop()

    asyncio.run(run())
    assert read_all(broker, topic, "read_committed") == [b"alive"]


# kafka-python


def test_kafka_python_commits_and_aborts(broker: Broker, topic: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=f"x-{topic}", linger_ms=0
    )
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number, partition=number % 2)
        if number == 1:
            producer.flush(20)
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert read_all(broker, topic, "read_committed") == [b"0", b"2", b"3"]
    for isolation, expected in (("read_committed", 3), ("read_uncommitted", 4)):
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            consumer_timeout_ms=1500,
        )
        consumer.assign([kafka.TopicPartition(topic, 0), kafka.TopicPartition(topic, 1)])
        assert len([message.value for message in consumer]) == expected
        consumer.close()


def test_kafka_python_sends_offsets_with_the_transaction(broker: Broker, topic: str) -> None:
    group = f"g-{topic}"
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=f"x-{topic}", linger_ms=0
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"a", partition=0)
    partition = kafka.TopicPartition(topic, 0)
    producer.send_offsets_to_transaction({partition: kafka.structs.OffsetAndMetadata(3, "", -1)}, group)
    producer.commit_transaction()
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group)
    assert consumer.committed(partition) == 3
    consumer.close()


def test_kafka_python_is_fenced(broker: Broker, topic: str) -> None:
    def make() -> Any:
        made = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id=f"x-{topic}", linger_ms=0
        )
        made.init_transactions()
        return made

    first = make()
    first.begin_transaction()
    first.send(topic, b"zombie", partition=0).get(20)
    second = make()
    with pytest.raises(kafka.errors.KafkaError):
        first.commit_transaction()
    second.begin_transaction()
    second.send(topic, b"alive", partition=0)
    second.commit_transaction()
    second.close()
    first.close(timeout=0)
    assert read_all(broker, topic, "read_committed") == [b"alive"]
