"""Promise: records in registry formats become columns, whatever their schema version."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer

from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.spark import avro, read_topic
from ottla.testing import Broker
from tests.client.registry_server import RegistryServer
from tests.spark.formats.avro_schemas import written
from tests.spark.sink.test_sink import consume

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark_fixtures import Source

VERSIONS: list[Any] = [
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]},
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": ["null", "string"], "default": None},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]},
        ],
    },
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "customer", "type": "string", "default": "nobody"},
            {"name": "id", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["none"]},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                "default": "\u0000",
            },
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        ],
    },
]


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> Iterator[SchemaRegistry]:
    settings = RegistrySettings.from_properties({"schema.registry.url": server.url})
    with SchemaRegistry(settings) as registry:
        yield registry


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def register(registry: SchemaRegistry, subject: str, schema: Any) -> int:
    return registry.register(subject, Schema(json.dumps(schema)))


def produce(broker: Broker, topic: str, *records: Any) -> None:
    """Produce records, each a value or (value, headers)."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for each in records:
        value, headers = each if isinstance(each, tuple) else (each, None)
        producer.produce(topic, value, headers=headers)
    assert producer.flush(30) == 0


def test_three_versions_in_one_topic_are_read_as_the_latest(
    source: Source, ottla_broker: Broker, ottla_topic: str, registry: SchemaRegistry, server: RegistryServer
) -> None:
    ids = [register(registry, f"{ottla_topic}-value", each) for each in VERSIONS]
    rows = [
        framed(ids[0], written(VERSIONS[0], {"id": 1})),
        framed(ids[1], written(VERSIONS[1], {"id": 2, "customer": "ann", "tags": []})),
        framed(
            ids[2],
            written(
                VERSIONS[2],
                {"id": 3, "customer": "bob", "tags": ["a", "b"], "price": Decimal("0.5"), "at": 1},
            ),
        ),
        None,
    ]
    produce(ottla_broker, ottla_topic, *rows)
    frame = source.batch(subscribe=ottla_topic, valueFormat="avro", schemaRegistryUrl=server.url)
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<customer:string,id:bigint,tags:array<string>,price:decimal(9,2),at:timestamp>"
    )
    found = frame.orderBy("offset").selectExpr(
        "value.customer",
        "value.id",
        "value.tags",
        "cast(value.price as string)",
        "unix_millis(value.at)",
        "badValue",
    )
    assert [tuple(row) for row in found.collect()] == [
        ("nobody", 1, ["none"], "0.00", 0, None),
        ("ann", 2, [], "0.00", 0, None),
        ("bob", 3, ["a", "b"], "0.50", 1, None),
        (None, None, None, None, None, None),
    ]
    older = source.batch(
        subscribe=ottla_topic, valueFormat="avro", schemaRegistryUrl=server.url, valueSchemaVersion=2
    )
    assert [tuple(row.value) for row in older.orderBy("offset").limit(3).collect()] == [
        (1, None, ["none"]),
        (2, "ann", []),
        (3, "bob", ["a", "b"]),
    ]
    by_id = source.batch(
        subscribe=ottla_topic, valueFormat="avro", schemaRegistryUrl=server.url, valueSchemaId=ids[0]
    )
    # A long does not fit an int.
    found = by_id.orderBy("offset").select("value", "badValue").collect()
    assert [row.value and row.value.id for row in found] == [1, None, None, None]
    assert [None if row.badValue is None else bytes(row.badValue) for row in found] == [None, *rows[1:]]
    given = source.batch(
        subscribe=ottla_topic,
        valueFormat="avro",
        schemaRegistryUrl=server.url,
        valueSchema="id BIGINT, customer STRING, unheard DOUBLE",
    )
    assert [row.value and tuple(row.value) for row in given.orderBy("offset").collect()] == [
        (1, None, None),
        (2, "ann", None),
        (3, "bob", None),
        None,
    ]


def test_bad_records_keep_their_bytes_end_the_query_or_become_dead_letters(
    source: Source, ottla_broker: Broker, ottla_topic: str, registry: SchemaRegistry, server: RegistryServer
) -> None:
    number = register(registry, f"{ottla_topic}-value", VERSIONS[0])
    other = registry.register("some-protobuf", Schema("message M {}", "PROTOBUF"))
    good = framed(number, written(VERSIONS[0], {"id": 1}))
    bad = [
        b"",
        b"text",
        b"\0\0\0",
        framed(12345, b"\2"),
        framed(number, b"\2\2"),
        framed(number, b""),
        framed(other, b""),
    ]
    values = [each for one in bad for each in (good, one)]
    produce(ottla_broker, ottla_topic, *values)
    options: dict[str, Any] = {
        "subscribe": ottla_topic,
        "valueFormat": "avro",
        "schemaRegistryUrl": server.url,
    }
    rows = source.batch(**options).orderBy("offset").select("value", "badValue").collect()
    assert [row.value.id if row.value else bytes(row.badValue) for row in rows] == [
        each for one in bad for each in (1, one)
    ]
    with pytest.raises(
        Exception, match=r"offset 1 of .* cannot be read: it is empty, and has no id of a schema\."
    ):
        source.batch(**options, badRows="fail").collect()
    dead = f"{ottla_topic}-dead"
    ottla_broker.create_topic(dead)
    assert source.batch(**options, deadLetterTopic=dead).count() == len(bad)
    letters = consume(ottla_broker, dead, partitions=1)
    reasons = [dict(letter.headers())["ottla.dead.letter.reason"].decode() for letter in letters]
    assert [letter.value() or b"" for letter in letters] == bad
    assert reasons == [
        "it is empty, and has no id of a schema",
        "it does not begin with the id of a schema",
        "it does not begin with the id of a schema",
        "schema 12345 is not in the registry",
        "there is more after its end",
        "it ends within id",
        f"it was written with schema {other}: it is PROTOBUF, not AVRO",
    ]


def test_ids_may_be_in_headers_and_keys_have_schemas_too(
    source: Source, ottla_broker: Broker, ottla_topic: str, registry: SchemaRegistry, server: RegistryServer
) -> None:
    number = register(registry, f"{ottla_topic}-value", VERSIONS[0])
    key = registry.register(f"{ottla_topic}-key", Schema('"long"'))
    data = written(VERSIONS[0], {"id": 7})
    guid = b"\1" + uuid.UUID(server.guid(number)).bytes
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    for value, headers in (
        (data, {"x": b"y", "__value_schema_id": guid}),
        (data, {"__value_schema_id": b"\0" + number.to_bytes(4, "big")}),
        (guid + data, {}),
        (framed(number, data), {}),
        (data, {"__value_schema_id": b"?"}),
    ):
        producer.produce(ottla_topic, value, key=framed(key, b"\x0a"), headers=headers)
    assert producer.flush(30) == 0
    frame = source.batch(
        subscribe=ottla_topic, valueFormat="avro", keyFormat="avro", schemaRegistryUrl=server.url
    ).orderBy("offset")
    assert frame.dtypes[0] == ("key", "bigint")
    assert frame.columns[-2:] == ["badKey", "badValue"]
    assert [(row.key, row.value and row.value.id) for row in frame.collect()] == [(5, 7)] * 4 + [(5, None)]


def test_a_stream_goes_on_with_the_columns_that_it_began_with(
    session: SparkSession,
    ottla_broker: Broker,
    ottla_topic: str,
    registry: SchemaRegistry,
    server: RegistryServer,
) -> None:
    session.conf.set("spark.ottla.schema.registry.url", server.url)
    try:
        first = register(registry, f"{ottla_topic}-value", VERSIONS[1])
        produce(
            ottla_broker,
            ottla_topic,
            framed(first, written(VERSIONS[1], {"id": 1, "customer": None, "tags": []})),
        )
        frame = read_topic(session, ottla_topic, value=avro())
        # The newer schema appears after the columns were planned.
        second = register(registry, f"{ottla_topic}-value", VERSIONS[2])
        value = {"id": 2, "customer": "bob", "tags": [], "price": Decimal(1), "at": 1}
        produce(ottla_broker, ottla_topic, framed(second, written(VERSIONS[2], value)))
        query = (
            frame.select("value.*")
            .writeStream.format("memory")
            .queryName("orders_read")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        rows = session.sql("SELECT * FROM orders_read ORDER BY id").collect()
        assert [tuple(row) for row in rows] == [(1, None, []), (2, "bob", [])]
    finally:
        session.conf.unset("spark.ottla.schema.registry.url")


def test_without_a_registry_records_are_plain_and_the_schema_is_an_option(
    source: Source, ottla_broker: Broker, ottla_topic: str
) -> None:
    produce(ottla_broker, ottla_topic, written(VERSIONS[0], {"id": 5}), None, b"")
    frame = source.batch(subscribe=ottla_topic, valueFormat="avro", valueSchema=json.dumps(VERSIONS[0]))
    rows = frame.orderBy("offset").select("value.id", "badValue").collect()
    assert [tuple(row) for row in rows] == [(5, None), (None, None), (None, bytearray())]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueFormat": "avro"}, "valueFormat=avro needs schemaRegistryUrl"),
        (
            {"valueFormat": "avro", "schemaRegistryUrl": "x"},
            "schemaRegistryUrl must be like http://localhost:8081",
        ),
        ({"valueFormat": "avro", "schemaRegistryUrl": "{url}"}, "Subject 'nowhere-value' not found"),
        ({"valueFormat": "avro", "schemaRegistryUrl": "http://127.0.0.1:1"}, "No schema registry answers at"),
        ({"valueSubject": "x"}, "valueSubject has no meaning without valueFormat=avro"),
        ({"valueFormat": "avro", "valueSchema": '{"type": "x"}'}, "there is no type 'x'"),
        (
            {
                "valueFormat": "avro",
                "schemaRegistryUrl": "{url}",
                "valueSchemaId": "1",
                "valueSchemaVersion": "2",
            },
            "valueSchemaId says which schema it is",
        ),
        (
            {"valueFormat": "avro", "schemaRegistryUrl": "{url}", "valueSchemaVersion": "first"},
            "valueSchemaVersion must be latest or a number above 0, not 'first'",
        ),
        (
            {"valueFormat": "avro", "schemaRegistryUrl": "{url}", "subscribe": "a,b"},
            "Several topics may be read: say valueSubject",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_topic_is_loaded(
    source: Source, server: RegistryServer, options: dict[str, str], message: str
) -> None:
    given = {
        "subscribe": "nowhere",
        **{name: text.replace("{url}", server.url) for name, text in options.items()},
    }
    with pytest.raises(Exception, match=message):
        source.batch(**given)
