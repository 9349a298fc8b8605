"""Promise: Spark reads the output of Confluent's serializers with our registry as columns, and vice versa."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka.schema_registry.avro")

from confluent_kafka import Producer
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.spark import avro, jsonschema, protobuf, read_topic, text, to_topic
from ottla.testing import Broker
from tests.spark.consuming import consume
from tests.spark.formats.test_protobuf_decoder import classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AVRO = [
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]},
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    },
]
PROTO = """
syntax = "proto3";
message Order { int64 id = 1; repeated string tags = 2; Place place = 3; message Place { double x = 1; } }
message Refund { int64 id = 1; }
"""
JSON_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}},
    },
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as broker:
        yield broker


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


@pytest.fixture
def registry(broker: Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.schema_registry_url}) as client:
        yield client


def send(broker: Broker, topic: str, serializer: Any, *values: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        headers: list[Any] = []
        context = SerializationContext(topic, MessageField.VALUE, headers)
        data = serializer(value, context)
        producer.produce(topic, data, headers=context.headers or None)
    assert producer.flush(30) == 0


def test_avro_of_two_versions_in_bytes_and_in_headers(
    session: SparkSession, broker: Broker, registry: SchemaRegistryClient
) -> None:
    broker.create_topic("avro-orders")
    first, second = (AvroSerializer(registry, json.dumps(each)) for each in AVRO)
    in_headers = AvroSerializer(
        registry, json.dumps(AVRO[1]), conf={"schema.id.serializer": header_schema_id_serializer}
    )
    send(broker, "avro-orders", first, {"id": 1})
    send(broker, "avro-orders", second, {"id": 2, "note": "two"})
    send(broker, "avro-orders", in_headers, {"id": 3, "note": "three"})
    frame = read_topic(session, "avro-orders", value=avro(), stream=False)
    rows = frame.orderBy("offset").select("value.*", "badValue").collect()
    assert [tuple(row) for row in rows] == [(1, None, None), (2, "two", None), (3, "three", None)]


@pytest.mark.parametrize("kind", ["avro", "protobuf", "jsonschema"])
def test_keys_and_values_with_their_schemas_in_headers(
    session: SparkSession, broker: Broker, registry: SchemaRegistryClient, kind: str
) -> None:
    topic, form = f"headers-{kind}", {"avro": avro, "protobuf": protobuf, "jsonschema": jsonschema}[kind]
    broker.create_topic(topic)
    frame = session.sql("SELECT struct(7L AS id) AS key, 1L AS id, 'some note' AS note")
    in_headers = {
        f"{part}SchemaIdSerializer": "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
        for part in ("key", "value")
    }
    to_topic(frame, topic, key="key", key_format=form(), value=form(), options=in_headers)
    [record] = broker.records(topic)
    headers = dict(record.headers)
    assert sorted(headers) == ["__key_schema_id", "__value_schema_id"]
    for part in ("key", "value"):
        latest = registry.get_latest_version(f"{topic}-{part}")
        assert bytes(headers[f"__{part}_schema_id"])[1:17] == uuid.UUID(latest.guid).bytes
    rows = read_topic(session, topic, key=form(), value=form(), stream=False).select("key.id", "value.*")
    assert [tuple(row) for row in rows.collect()] == [(7, 1, "some note")]
    if kind == "avro":
        read = AvroDeserializer(registry, conf={"schema.id.deserializer": dual_schema_id_deserializer})
        context = SerializationContext(topic, MessageField.VALUE, list(headers.items()))
        assert read(bytes(record.value), context) == {"id": 1, "note": "some note"}


def test_a_batch_in_update_mode_is_written_with_a_schema(
    session: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    for name in ("words", "counted"):
        broker.create_topic(name)
    for word in (b"a", b"b", b"a"):
        broker.produce("words", word)
    words = read_topic(session, "words", value=text)
    counts = words.groupBy("value").count().selectExpr("value AS key", "count")
    query = to_topic(
        counts,
        "counted",
        value=avro(),
        output_mode="update",
        trigger="available-now",
        checkpoint=str(tmp_path / "c"),
    )
    assert query is not None
    query.awaitTermination(120)
    rows = read_topic(session, "counted", value=avro(), stream=False).select("key", "value.count").collect()
    assert sorted(map(tuple, rows)) == [("a", 2), ("b", 1)]


def test_protobuf_and_its_messages(
    session: SparkSession, broker: Broker, registry: SchemaRegistryClient
) -> None:
    broker.create_topic("proto-orders")
    messages = classes(PROTO)
    order = messages["Order"](id=7, tags=["a", "b"])
    order.place.x = 1.5
    conf = {"use.deprecated.format": False}
    send(
        broker,
        "proto-orders",
        ProtobufSerializer(messages["Order"], registry, conf),
        order,
        messages["Order"](),
    )
    send(
        broker,
        "proto-orders",
        ProtobufSerializer(messages["Refund"], registry, conf),
        messages["Refund"](id=9),
    )
    frame = read_topic(session, "proto-orders", value=protobuf(), stream=False).orderBy("offset")
    assert [row.value and row.value.asDict(True) for row in frame.collect()] == [
        {"id": 7, "tags": ["a", "b"], "place": {"x": 1.5}},
        {"id": 0, "tags": [], "place": None},
        None,
    ]
    refunds = read_topic(session, "proto-orders", value=protobuf(message="Refund"), stream=False)
    assert [row.id for row in refunds.where("value IS NOT NULL").select("value.id").collect()] == [9]
    given = read_topic(session, "proto-orders", value=protobuf("id BIGINT, tags ARRAY<STRING>"), stream=False)
    found = given.orderBy("offset").select("value.id", "value.tags").collect()
    assert [tuple(row) for row in found] == [(7, ["a", "b"]), (0, []), (9, None)]


def test_json_schema_and_what_spark_writes(
    session: SparkSession, broker: Broker, registry: SchemaRegistryClient
) -> None:
    broker.create_topic("json-orders")
    serializer = JSONSerializer(json.dumps(JSON_SCHEMA), registry)
    send(broker, "json-orders", serializer, {"id": 1, "place": {"x": 0.5}}, {"id": 2})
    frame = read_topic(session, "json-orders", value=jsonschema(), stream=False).orderBy("offset")
    assert [row.value.asDict(True) for row in frame.collect()] == [
        {"id": 1, "place": {"x": 0.5}},
        {"id": 2, "place": None},
    ]
    rows = session.range(2).selectExpr("id", "struct(id * 0.5D AS x) AS place")
    expected = [{"id": 0, "place": {"x": 0.0}}, {"id": 1, "place": {"x": 0.5}}]
    for topic, kind, deserializer in (
        ("spark-avro", avro, AvroDeserializer(registry)),
        ("spark-json", jsonschema, JSONDeserializer(None, schema_registry_client=registry)),
    ):
        broker.create_topic(topic)
        to_topic(rows, topic, value=kind())
        values = [message.value() for message in consume(broker.bootstrap_servers, topic, 1)]
        read = [deserializer(each, SerializationContext(topic, MessageField.VALUE)) for each in values]
        assert sorted(read, key=lambda each: each["id"]) == expected
        again = read_topic(session, topic, value=kind(), stream=False).orderBy("value.id")
        assert [row.value.asDict(True) for row in again.collect()] == expected


def test_protobuf_that_spark_writes(
    session: SparkSession, broker: Broker, registry: SchemaRegistryClient
) -> None:
    broker.create_topic("spark-proto")
    rows = session.range(2).selectExpr(
        "id",
        "array(id, 2L) AS xs",
        "struct('grüß' AS name, map('k', id) AS m) AS inner",
        "timestamp_millis(id) AS at",
    )
    to_topic(rows, "spark-proto", value=protobuf())
    text = registry.get_latest_version("spark-proto-value").schema.schema_str
    message = classes(text)["TopLevelRecord"]
    deserializer = ProtobufDeserializer(message, {"use.deprecated.format": False}, registry)
    values = [each.value() for each in consume(broker.bootstrap_servers, "spark-proto", 1)]
    read = [deserializer(each, SerializationContext("spark-proto", MessageField.VALUE)) for each in values]
    found = sorted(
        (each.id, list(each.xs), each.inner.name, dict(each.inner.m), each.at.nanos) for each in read
    )
    assert found == [(0, [0, 2], "grüß", {"k": 0}, 0), (1, [1, 2], "grüß", {"k": 1}, 1_000_000)]
    again = read_topic(session, "spark-proto", value=protobuf(), stream=False).select("value.*").orderBy("id")
    assert again.collect() == rows.orderBy("id").collect()


def test_an_incompatible_schema_is_refused_before_anything_is_written(
    session: SparkSession, broker: Broker, registry: SchemaRegistryClient
) -> None:
    broker.create_topic("refused")
    send(broker, "refused", AvroSerializer(registry, json.dumps(AVRO[0])), {"id": 1})
    with pytest.raises(Exception, match=r"under subject 'refused-value': .*incompatible"):
        to_topic(session.range(1).selectExpr("'x' AS id"), "refused", value=avro())
