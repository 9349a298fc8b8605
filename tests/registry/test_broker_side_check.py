"""A topic that accepts only records with a schema, from common serializers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.testing import Broker

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as running:
        running.create_topic("orders", config={"confluent.value.schema.validation": "true"})
        yield running


def failure(broker: Broker, value: bytes | None) -> str | None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    errors: list[object] = []
    producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    [error] = errors
    return None if error is None else error.name()  # type: ignore[attr-defined]


def test_only_what_is_registered_for_the_topic_gets_in(broker: Broker) -> None:
    with SchemaRegistryClient({"url": broker.schema_registry_url}) as registry:
        context = SerializationContext("orders", MessageField.VALUE)
        good = AvroSerializer(registry, ORDER)({"id": 1}, context)
        other = registry.register_schema("others-value", Schema('"string"', "AVRO"))
    assert failure(broker, good) is None
    assert failure(broker, b'{"id": 1}') == "INVALID_RECORD"
    assert failure(broker, b"\0" + other.to_bytes(4, "big") + b"\2a") == "INVALID_RECORD"
    assert failure(broker, b"\0\0\0\x03\xe7data") == "INVALID_RECORD"
    assert [bytes(record.value or b"") for record in broker.records("orders")] == [good]
