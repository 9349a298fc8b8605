"""Promise: DataFrames are written in registry formats, and any registry client reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.spark import avro, read_topic, to_topic
from ottla.testing import Broker
from tests.client.registry_server import RegistryServer
from tests.spark.formats.avro_schemas import read
from tests.spark.sink.test_sink import consume

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(RegistrySettings.from_properties({"schema.registry.url": server.url})) as registry:
        yield registry


def save(frame: DataFrame, broker: Broker, server: RegistryServer, **options: Any) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "schemaRegistryUrl": server.url, **options}
    frame.write.format("ottla").mode("append").options(**given).save()


def test_columns_are_written_as_avro_with_a_schema_that_is_registered(
    spark: SparkSession,
    ottla_broker: Broker,
    ottla_topic: str,
    server: RegistryServer,
    registry: SchemaRegistry,
) -> None:
    frame = spark.range(3).selectExpr(
        "id AS key",
        "IF(id = 2, NULL, struct(id, concat('n', id) AS name, array(id, NULL) AS xs,"
        " CAST(id AS DECIMAL(5, 1)) AS price, timestamp_millis(id) AS at, map('k', id) AS m)) AS value",
    )
    save(frame, ottla_broker, server, topic=ottla_topic, valueFormat="avro", keyFormat="avro")
    assert registry.latest(f"{ottla_topic}-key").text == '"long"'
    schema = registry.latest(f"{ottla_topic}-value")
    found = {}
    for message in consume(ottla_broker, ottla_topic, partitions=1):
        assert message.key()[:1] == b"\0"
        value = message.value()
        assert value is None or value[:5] == b"\0" + schema.id.to_bytes(4, "big")
        found[read(message.key()[5:], "long")] = value and read(value[5:], json.loads(schema.text))
    assert found[2] is None
    assert (found[1]["id"], found[1]["name"], found[1]["xs"], found[1]["m"]) == (1, "n1", [1, None], {"k": 1})
    assert (str(found[1]["price"]), found[1]["at"].microsecond) == ("1.0", 1000)

    save(
        frame,
        ottla_broker,
        server,
        topic=ottla_topic,
        valueFormat="avro",
        keyFormat="avro",
        valueSubjectNameStrategy="TopicRecordNameStrategy",
        keySubject="some-key",
    )
    assert registry.latest(f"{ottla_topic}-topLevelRecord").text == schema.text
    assert registry.latest("some-key").text == '"long"'


def test_a_registered_schema_is_used_and_an_unknown_one_can_be_refused(
    spark: SparkSession,
    ottla_broker: Broker,
    ottla_topic: str,
    server: RegistryServer,
    registry: SchemaRegistry,
) -> None:
    own = {
        "type": "record",
        "name": "Own",
        "fields": [{"name": "extra", "type": "int", "default": 9}, {"name": "id", "type": "long"}],
    }
    number = registry.register(f"{ottla_topic}-value", Schema(json.dumps(own)))
    frame = spark.range(1).selectExpr("struct(id) AS value")
    save(frame, ottla_broker, server, topic=ottla_topic, valueFormat="avro", valueSchemaVersion="latest")
    [message] = consume(ottla_broker, ottla_topic, partitions=1)
    assert message.value()[:5] == b"\0" + number.to_bytes(4, "big")
    assert read(message.value()[5:], own) == {"extra": 9, "id": 0}
    with pytest.raises(Exception, match="Schema not found"):
        save(frame, ottla_broker, server, topic=ottla_topic, valueFormat="avro", registerSchemas="false")
    named = spark.range(1).selectExpr("struct(id, 'x' AS name) AS value")
    with pytest.raises(Exception, match="cannot be written with its schema: the schema has no field name"):
        save(named, ottla_broker, server, topic=ottla_topic, valueFormat="avro", valueSchemaVersion="latest")
    null = spark.range(1).selectExpr("struct(CAST(NULL AS LONG) AS id) AS value")
    with pytest.raises(Exception, match="in column 'value' id is null, which the schema does not allow"):
        save(null, ottla_broker, server, topic=ottla_topic, valueFormat="avro", valueSchemaVersion="latest")


def test_what_to_topic_writes_read_topic_reads(
    session: SparkSession, ottla_broker: Broker, ottla_topic: str, server: RegistryServer
) -> None:
    session.conf.set("spark.ottla.schema.registry.url", server.url)
    try:
        frame = session.range(5).selectExpr("CAST(id AS STRING) AS key", "id", "array(struct(id AS x)) AS xs")
        to_topic(frame, ottla_topic, value=avro())
        found = (
            read_topic(session, ottla_topic, value=avro(), stream=False)
            .orderBy("value.id")
            .select("key", "value.*")
        )
        assert [tuple(row) for row in found.collect()] == [
            tuple(row) for row in frame.orderBy("id").collect()
        ]
    finally:
        session.conf.unset("spark.ottla.schema.registry.url")
