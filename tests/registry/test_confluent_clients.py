"""confluent-kafka's registry client and serializers, sync and async, unchanged."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import (
    AsyncAvroDeserializer,
    AsyncAvroSerializer,
    AvroDeserializer,
    AvroSerializer,
)
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

AVRO = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"}]}'
AVRO_2 = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"note","type":["null","string"],"default":null}]}'
)
JSON_SCHEMA = '{"type":"object","title":"Order","properties":{"id":{"type":"integer"}},"required":["id"]}'


@pytest.fixture
def client(broker):
    with SchemaRegistryClient({"url": broker.schema_registry_url}) as started:
        yield started


def test_the_client_does_all_it_can(client, subject):
    schema_id = client.register_schema(subject, Schema(AVRO, "AVRO"))
    assert client.get_schema(schema_id).schema_str == AVRO
    assert subject in client.get_subjects()
    assert client.get_versions(subject) == [1]
    latest = client.get_latest_version(subject)
    assert (latest.schema_id, latest.version, latest.subject) == (schema_id, 1, subject)
    assert client.get_schema_by_guid(latest.guid).schema_str == AVRO
    assert client.lookup_schema(subject, Schema(AVRO, "AVRO")).version == 1
    assert client.test_compatibility(subject, Schema(AVRO_2, "AVRO"))
    assert not client.test_compatibility(subject, Schema('"int"', "AVRO"))
    assert [each.subject for each in client.get_schema_versions(schema_id)] == [subject]
    assert client.set_compatibility(subject, "FULL") == {"compatibility": "FULL"}
    assert client.get_compatibility(subject) == "FULL"
    client.set_config(
        subject, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major")
    )
    config = client.get_config(subject)
    assert (config.compatibility_level, config.compatibility_group) == (
        ConfigCompatibilityLevel.NONE,
        "major",
    )
    assert client.get_global_mode() == "READWRITE"
    client.update_mode(subject, "READONLY")
    assert client.get_mode(subject) == "READONLY"
    client.delete_mode(subject)
    assert "." in client.get_contexts()
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]
    assert client.delete_version(subject, 1) == 1
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_versions(subject)
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)
    assert client.delete_version(subject, 1, permanent=True) == 1


def test_metadata_rules_and_references(client, subject):
    rules = RuleSet(
        migration_rules=[],
        domain_rules=[
            Rule("r", "doc", RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "true", None, None, False)
        ],
    )
    given = Schema(AVRO, "AVRO", [], Metadata(None, MetadataProperties({"owner": "ann"}), None), rules)
    client.register_schema(f"part-{subject}", given)
    found = client.get_latest_version(f"part-{subject}")
    assert found.schema.metadata.properties.properties == {"owner": "ann"}
    assert found.schema.rule_set.domain_rules[0].name == "r"
    assert client.get_latest_with_metadata(f"part-{subject}", {"owner": "ann"}).version == 1
    whole = '{"type":"record","name":"Whole","fields":[{"name":"o","type":"shop.Order"}]}'
    reference = SchemaReference("shop.Order", f"part-{subject}", 1)
    schema_id = client.register_schema(f"whole-{subject}", Schema(whole, "AVRO", [reference]))
    assert client.get_referenced_by(f"part-{subject}", 1) == [schema_id]


def _round_trip(broker, topic, serialize, deserialize, value):
    """Write and read through the broker."""
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, serialize(value, context))
    producer.flush(30)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
    )
    consumer.subscribe([topic])
    message = None
    while message is None or message.error():
        message = consumer.poll(30)
    consumer.close()
    return deserialize(message.value(), context)


def test_avro_of_three_versions_is_read_by_one_reader(broker, client, subject):
    for schema, value in ((AVRO, {"id": 1}), (AVRO_2, {"id": 2, "note": "x"})):
        found = _round_trip(
            broker, subject, AvroSerializer(client, schema), AvroDeserializer(client, AVRO_2), value
        )
        assert found["id"] == 1  # the topic's first record, read with the newer schema
        assert found["note"] is None
    assert client.get_versions(f"{subject}-value") == [1, 2]


def test_an_incompatible_producer_is_refused(client, subject):
    context = SerializationContext(subject, MessageField.VALUE)
    AvroSerializer(client, AVRO)({"id": 1}, context)
    other = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string"}]}'
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(client, other)({"id": "one"}, context)
    assert refused.value.http_status_code == 409
    assert client.get_versions(f"{subject}-value") == [1]


def test_json_schema(broker, client, subject):
    value = _round_trip(
        broker,
        subject,
        JSONSerializer(JSON_SCHEMA, client),
        JSONDeserializer(JSON_SCHEMA, schema_registry_client=client),
        {"id": 5},
    )
    assert value == {"id": 5}
    assert client.get_latest_version(f"{subject}-value").schema.schema_type == "JSON"


def _order_class():
    """Return a class like protoc's output, with an import."""
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="line.proto", package="shop", syntax="proto3")
    line = file.message_type.add(name="Line")
    line.field.add(name="text", number=1, type=9, label=1)
    pool.Add(file)
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["line.proto"]
    )
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="lines", number=2, type=11, label=3, type_name=".shop.Line")
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_with_a_reference(broker, client, subject):
    order = _order_class()
    value = order(id=9)
    value.lines.add(text="tea")
    settings = {"use.deprecated.format": False}
    found = _round_trip(
        broker,
        subject,
        ProtobufSerializer(order, client, settings),
        ProtobufDeserializer(order, settings, client),
        value,
    )
    assert (found.id, found.lines[0].text) == (9, "tea")
    latest = client.get_latest_version(f"{subject}-value")
    assert [each.name for each in latest.schema.references] == ["line.proto"]
    # The request of its own deserializer.
    assert client.get_schema(latest.schema_id, fmt="serialized").schema_str


def test_async_serializers(broker, subject):
    async def run():
        context = SerializationContext(subject, MessageField.VALUE)
        client = AsyncSchemaRegistryClient({"url": broker.schema_registry_url})
        serialize = await AsyncAvroSerializer(client, AVRO)
        deserialize = await AsyncAvroDeserializer(client)
        data = await asyncio.gather(*(serialize({"id": number}, context) for number in range(20)))
        assert [await deserialize(each, context) for each in data] == [{"id": number} for number in range(20)]
        assert await client.get_versions(f"{subject}-value") == [1]
        await client.__aexit__()

    asyncio.run(run())
