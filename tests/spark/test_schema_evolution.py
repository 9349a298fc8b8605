"""Promise: a Spark stream and SQL read a topic with three schema versions as one. The registry refuses a fourth,
breaking version.

The producers are Confluent's, with our registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("sqlglot")
pytest.importorskip("confluent_kafka.schema_registry.avro")

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from ottla.spark import avro, protobuf, read_topic
from ottla.sql import SqlSession
from ottla.testing import Broker
from tests.spark.formats.test_protobuf_decoder import classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def order(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


ID, LONG_ID = {"name": "id", "type": "int"}, {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": "none"}
TAGS = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
AVRO = [order(ID), order(ID, NOTE), order(LONG_ID, NOTE, TAGS)]
BROKEN_AVRO = order({"name": "id", "type": "string"}, NOTE, TAGS)

PROTO = [
    f'syntax = "proto3"; package shop; message Order {{ {fields} }}'
    for fields in (
        "int32 id = 1;",
        "int32 id = 1; string note = 2;",
        "int64 id = 1; string note = 2; repeated string tags = 3;",
    )
]
BROKEN_PROTO = 'syntax = "proto3"; package shop; message Order { string id = 1; string note = 2; }'
VALUES = [{"id": 1}, {"id": 2, "note": "x"}, {"id": 3, "note": "y", "tags": ["t"]}]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


@pytest.fixture
def registry(broker: Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.schema_registry_url}) as client:
        yield client


def send(broker: Broker, topic: str, serializer: Any, value: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, serializer(value, SerializationContext(topic, MessageField.VALUE)), key=b"k")
    assert producer.flush(30) == 0


def streamed(spark: SparkSession, topic: str, value: Any, checkpoint: Path) -> list[tuple[Any, ...]]:
    """Return the rows that a stream has read after catching up."""
    frame = read_topic(spark, topic, value=value).where("badValue IS NULL").select("value.*", "offset")
    rows: list[Any] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    return [tuple(row)[:-1] for row in sorted(rows, key=lambda row: row["offset"])]


def queried(spark: SparkSession, broker: Broker, topic: str, form: str, place: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a SQL push query."""
    session = SqlSession(spark, bootstrap_servers=broker.bootstrap_servers, checkpoints=str(place))
    try:
        name = topic.replace("-", "_")
        results = session.execute(
            "SET 'auto.offset.reset' = 'earliest';"
            f"CREATE STREAM {name} WITH (kafka_topic='{topic}', value_format='{form}');"
            f"SELECT id, note, tags FROM {name} EMIT CHANGES LIMIT 3;"
        )
        return sorted(results[-1].rows)
    finally:
        session.stop()


@pytest.fixture
def session(spark: SparkSession, broker: Broker) -> Iterator[SparkSession]:
    settings = {
        "spark.ottla.bootstrap.servers": broker.bootstrap_servers,
        "spark.ottla.schema.registry.url": broker.schema_registry_url,
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


def test_avro(session: SparkSession, broker: Broker, registry: SchemaRegistryClient, tmp_path: Path) -> None:
    broker.create_topic("avro-versions")
    for schema, value in zip(AVRO, VALUES, strict=True):
        send(broker, "avro-versions", AvroSerializer(registry, schema), value)
    expected = [(1, "none", []), (2, "x", []), (3, "y", ["t"])]
    assert streamed(session, "avro-versions", avro(), tmp_path / "c") == expected
    assert queried(session, broker, "avro-versions", "AVRO", tmp_path / "s") == expected
    broken = AvroSerializer(registry, BROKEN_AVRO)
    with pytest.raises((SchemaRegistryError, SerializationError), match="incompatible"):
        send(broker, "avro-versions", broken, {"id": "4", "note": "", "tags": []})
    assert registry.get_versions("avro-versions-value") == [1, 2, 3]


def test_protobuf(
    session: SparkSession, broker: Broker, registry: SchemaRegistryClient, tmp_path: Path
) -> None:
    broker.create_topic("proto-versions")
    for text, value in zip(PROTO, VALUES, strict=True):
        kind = classes(text)["Order"]
        send(broker, "proto-versions", protobuf_serializer(kind, registry), kind(**value))
    expected = [(1, "", []), (2, "x", []), (3, "y", ["t"])]
    assert streamed(session, "proto-versions", protobuf(), tmp_path / "c") == expected
    assert queried(session, broker, "proto-versions", "PROTOBUF", tmp_path / "s") == expected
    broken = classes(BROKEN_PROTO)["Order"]
    with pytest.raises((SchemaRegistryError, SerializationError), match="incompatible"):
        send(broker, "proto-versions", protobuf_serializer(broken, registry), broken(id="4"))
    assert registry.get_versions("proto-versions-value") == [1, 2, 3]


def protobuf_serializer(kind: Any, registry: SchemaRegistryClient) -> ProtobufSerializer:
    return ProtobufSerializer(kind, registry, {"use.deprecated.format": False})
