"""Promise: the broker's disk never sees an encrypted value's plaintext, from any writer; its consumers do."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from ottla.encryption import HEADER, BadValue, Decryptor, Encryptor, KeyFile, make_key_file
from ottla.testing import Broker

SECRET = b"card 4111 1111 1111 1111"
PLAIN = b"this one is not encrypted"


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    make_key_file(tmp_path / "keys.json")
    return KeyFile(tmp_path / "keys.json")


def by_confluent(servers: str, topic: str, encryptor: Encryptor) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    value, headers = encryptor.encrypt(topic, SECRET, [("trace", b"1")])
    producer.produce(topic, value=value, headers=headers)
    producer.produce(topic, value=PLAIN)
    assert producer.flush(30) == 0


def by_kafka_python(servers: str, topic: str, encryptor: Encryptor) -> None:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    value, headers = encryptor.encrypt(topic, SECRET, [("trace", b"1")])
    producer.send(topic, value=value, headers=headers)
    producer.send(topic, value=PLAIN)
    producer.flush(30)
    producer.close()


def by_aiokafka(servers: str, topic: str, encryptor: Encryptor) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def produce() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
            value, headers = encryptor.encrypt(topic, SECRET, [("trace", b"1")])
            await producer.send_and_wait(topic, value=value, headers=headers)
            await producer.send_and_wait(topic, value=PLAIN)

    asyncio.run(produce())


@pytest.mark.parametrize("produce", [by_confluent, by_kafka_python, by_aiokafka])
def test_the_segments_do_not_have_it(
    ottla_broker: Broker, keys: KeyFile, produce: Callable[[str, str, Encryptor], None]
) -> None:
    topic = f"secret-{uuid.uuid4().hex[:8]}"
    ottla_broker.create_topic(topic)
    produce(ottla_broker.bootstrap_servers, topic, Encryptor(keys))
    on_disk = b"".join(file.read_bytes() for file in ottla_broker.data.rglob("*") if file.is_file())
    assert PLAIN in on_disk, "what is not encrypted is there, so this looks in the right place"
    assert SECRET not in on_disk
    assert b"4111" not in on_disk
    encrypted, plain = ottla_broker.records(topic)
    assert HEADER in [name for name, _ in encrypted.headers]
    assert Decryptor(keys).decrypt(topic, encrypted.value, encrypted.headers) == (SECRET, [("trace", b"1")])
    with pytest.raises(BadValue, match="not encrypted"):
        Decryptor(keys).decrypt(topic, plain.value, plain.headers)


def test_headers_and_values_come_back_from_a_consumer(ottla_broker: Broker, keys: KeyFile) -> None:
    topic = f"secret-{uuid.uuid4().hex[:8]}"
    ottla_broker.create_topic(topic)
    by_confluent(ottla_broker.bootstrap_servers, topic, Encryptor(keys))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ottla_broker.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        [message] = consumer.consume(1, timeout=30)
    finally:
        consumer.close()
    assert Decryptor(keys).decrypt(message.topic(), message.value(), message.headers()) == (
        SECRET,
        [("trace", b"1")],
    )
