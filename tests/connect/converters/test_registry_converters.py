"""Keys and values with registered schemas, compatible with Confluent's clients both ways."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("fastavro")

from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.connect.config.config_def import ConfigError
from ottla.connect.converters import load_converter
from ottla.connect.converters.converter import Converter
from ottla.connect.data import logical
from ottla.connect.data.columns import MixedRecordsError
from ottla.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    SchemaBuilder,
    SchemaType,
    array,
    mapping,
)  # fmt: skip
from ottla.connect.data.schema import Schema as ConnectSchema
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError, RetriableError
from ottla.testing import Broker

Make = Callable[..., Converter]

CLASSES = {
    "AVRO": "io.confluent.connect.avro.AvroConverter",
    "JSON": "io.confluent.connect.json.JsonSchemaConverter",
    "PROTOBUF": "io.confluent.connect.protobuf.ProtobufConverter",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker(registry=True) as broker:
        yield broker.schema_registry_url


@pytest.fixture
def registry(url: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(RegistrySettings.from_properties({"schema.registry.url": url})) as client:
        yield client


@pytest.fixture
def converter() -> Iterator[Make]:
    """Makes converters, and closes them afterwards."""
    with contextlib.ExitStack() as made:

        def make(kind: str, url: str, **settings: str) -> Converter:
            config = {"value.converter": CLASSES[kind], "value.converter.schema.registry.url": url}
            config |= {f"value.converter.{name.replace('__', '.')}": each for name, each in settings.items()}
            found = load_converter(config, {}, "value")
            made.callback(found.close)
            return found

        yield make


CITY = SchemaBuilder("org.example.City").field("name", STRING).field("zip", OPTIONAL_STRING).build()
PERSON = (
    SchemaBuilder("org.example.Person")
    .field("name", STRING)
    .field("i8", INT8)
    .field("i16", INT16)
    .field("i32", INT32)
    .field("i64", OPTIONAL_INT64)
    .field("f32", FLOAT32)
    .field("f64", FLOAT64)
    .field("ok", BOOLEAN)
    .field("raw", BYTES)
    .field("amount", logical.decimal_schema(2))
    .field("day", logical.DATE_SCHEMA)
    .field("clock", logical.TIME_SCHEMA)
    .field("at", logical.TIMESTAMP_SCHEMA.as_optional())
    .field("city", CITY)
    .field("tags", array(STRING))
    .field("points", mapping(STRING, INT32))
    .build()
)


def person() -> Struct:
    return Struct(
        PERSON,
        {
            "name": "Ada",
            "i8": -8,
            "i16": 300,
            "i32": 1 << 30,
            "i64": None,
            "f32": 1.5,
            "f64": 0.1,
            "ok": True,
            "raw": b"\x00\xff",
            "amount": decimal.Decimal("-12.30"),
            "day": dt.date(2024, 2, 29),
            "clock": dt.time(1, 2, 3, 4000),
            "at": dt.datetime(2024, 2, 29, 12, 0, 0, 5000, dt.UTC),
            "city": Struct(CITY, {"name": "London", "zip": "N1"}),
            "tags": ["a", "b"],
            "points": {"x": 1},
        },
    )


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_what_was_written_is_read_again(kind: str, url: str, converter: Make) -> None:
    made = converter(kind, url)
    data = made.from_connect(f"people-{kind}", PERSON, person())
    schema, value = made.to_connect(f"people-{kind}", data)
    assert schema is not None
    assert schema.version == 1  # the registry's version
    assert [(each.name, each.schema) for each in schema.fields] == [
        (each.name, each.schema) for each in PERSON.fields
    ]
    assert value.values == person().values


def test_an_avro_schema_says_what_it_is_in_connect(
    url: str, registry: SchemaRegistry, converter: Make
) -> None:
    schema = (
        SchemaBuilder("org.example.Order")
        .field("id", INT16)
        .field("price", logical.decimal_schema(2))
        .field("at", logical.TIMESTAMP_SCHEMA)
        .field("note", ConnectSchema(SchemaType.STRING, True, "none", doc="a note"))
        .field("zip", OPTIONAL_STRING)
        .build()
    )
    value = Struct(schema, {"id": 1, "price": decimal.Decimal("1.00"), "at": dt.datetime(2024, 1, 1)})
    assert converter("AVRO", url).from_connect("orders", schema, value)
    assert json.loads(registry.latest("orders-value").text) == {
        "type": "record",
        "name": "Order",
        "namespace": "org.example",
        "fields": [
            {"name": "id", "type": {"type": "int", "connect.type": "int16"}},
            {
                "name": "price",
                "type": {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 64,
                    "connect.version": 1,
                    "connect.parameters": {"scale": "2"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            },
            {
                "name": "at",
                "type": {
                    "type": "long",
                    "connect.version": 1,
                    "connect.name": "org.apache.kafka.connect.data.Timestamp",
                    "logicalType": "timestamp-millis",
                },
            },
            {
                "name": "note",
                "type": [{"type": "string", "connect.doc": "a note", "connect.default": "none"}, "null"],
                "doc": "a note",
                "default": "none",
            },
            {"name": "zip", "type": ["null", "string"], "default": None},
        ],
        "connect.name": "org.example.Order",
    }


def test_what_confluents_serializer_writes_is_read(url: str, converter: Make) -> None:
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    text = json.dumps(
        {
            "type": "record",
            "name": "Thing",
            "namespace": "x",
            "fields": [
                {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
                {
                    "name": "either",
                    "type": ["null", "int", "string", {"type": "record", "name": "R", "fields": []}],
                },
                {"name": "hash", "type": {"type": "fixed", "name": "Two", "size": 2}},
                {"name": "again", "type": ["null", "Kind"], "default": None},
                {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            ],
        }
    )
    client = confluent.SchemaRegistryClient({"url": url})
    serializer = AvroSerializer(client, text)
    thing: dict[str, Any] = {"kind": "B", "either": "x", "hash": b"ab", "again": "A", "micros": 5}
    with client:
        data = serializer(thing, SerializationContext("things", MessageField.VALUE))
    schema, value = converter("AVRO", url).to_connect("things", data)
    assert schema is not None
    assert (schema.name, schema.version) == ("x.Thing", 1)
    kind = schema.field("kind")
    assert kind is not None
    assert (kind.schema.type, kind.schema.name) == (SchemaType.STRING, "x.Kind")
    assert (value.get("kind"), value.get("again"), value.get("hash")) == ("B", "A", b"ab")
    assert value.get("micros") == 5
    either = value.get("either")
    assert either.schema.name == "io.confluent.connect.avro.Union"
    assert [each.name for each in either.schema.fields] == ["int", "string", "R"]
    assert either.values == [None, "x", None]


def test_confluents_deserializer_reads_what_we_write(url: str, converter: Make) -> None:
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    data = converter("AVRO", url).from_connect("people", PERSON, person())
    with confluent.SchemaRegistryClient({"url": url}) as client:
        read = AvroDeserializer(client)(data, SerializationContext("people", MessageField.VALUE))
    assert isinstance(read, dict)
    assert (read["name"], read["amount"], read["day"]) == (
        "Ada",
        decimal.Decimal("-12.30"),
        dt.date(2024, 2, 29),
    )
    assert read["city"] == {"name": "London", "zip": "N1"}


def test_primitives_and_maps_with_other_keys(url: str, converter: Make) -> None:
    made = converter("AVRO", url)
    for topic, schema, value in (
        ("p1", STRING, "x"),
        ("p2", INT8, 5),
        ("p3", array(mapping(INT32, STRING)), [{1: "a"}]),
        ("p4", BYTES, b"x"),
    ):
        data = made.from_connect(topic, schema, value)
        assert made.to_connect(topic, data)[1] == value


def test_subjects_by_record(url: str, registry: SchemaRegistry, converter: Make) -> None:
    strategy = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    made = converter("AVRO", url, value__subject__name__strategy=strategy)
    made.from_connect("t9", CITY, Struct(CITY, {"name": "x"}))
    assert "t9-org.example.City" in registry.subjects()


def test_a_schema_that_is_not_registered_is_refused_where_none_may_be(url: str, converter: Make) -> None:
    made = converter("AVRO", url, auto__register__schemas="false")
    with pytest.raises(DataError, match="Failed to get the schema of topic unknown"):
        made.from_connect("unknown", CITY, Struct(CITY, {"name": "x"}))


def test_the_latest_version_is_used_if_the_config_says_so(
    url: str, registry: SchemaRegistry, converter: Make
) -> None:
    fields = [{"name": "name", "type": "string"}, {"name": "more", "type": "string", "default": "m"}]
    latest = {"type": "record", "name": "City", "namespace": "org.example", "fields": fields}
    registered = registry.register("latest-value", Schema(json.dumps(latest)))
    made = converter("AVRO", url, auto__register__schemas="false", use__latest__version="true")
    data = made.from_connect("latest", CITY, Struct(CITY, {"name": "x"}))
    assert data is not None
    assert int.from_bytes(data[1:5], "big") == registered
    assert made.to_connect("latest", data)[1].get("more") == "m"


@pytest.mark.parametrize("data", [b"", b"{}", b"\x00\x00", b"\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff"])
def test_bytes_that_are_something_else_are_refused(url: str, data: bytes, converter: Make) -> None:
    made = converter("AVRO", url)
    made.from_connect("first", STRING, "x")
    with pytest.raises(DataError):
        made.to_connect("first", data)


@pytest.mark.parametrize("kind", sorted(CLASSES))
def test_many_are_written_and_read_as_each_is(kind: str, url: str, converter: Make) -> None:
    made, topic = converter(kind, url), f"many-{kind}"
    cities = [Struct(CITY, {"name": name, "zip": None if name else "N1"}) for name in ("London", "", "Wien")]
    written = made.all_from_connect(topic, CITY, cities)
    assert written == [made.from_connect(topic, CITY, each) for each in cities]
    schema, values = made.all_to_connect(topic, written)
    assert [(schema, each) for each in values] == [made.to_connect(topic, each) for each in written]
    optional = CITY.as_optional()
    with_null: list[Any] = [Struct.of(optional, ["London", None]), None]
    written = made.all_from_connect(topic, optional, with_null)
    assert written == [made.from_connect(topic, optional, each) for each in with_null]
    with pytest.raises(DataError):
        made.all_from_connect(topic, CITY, [*cities, {"name": "Linz"}])
    with pytest.raises((DataError, MixedRecordsError)):
        made.all_to_connect(topic, [made.from_connect(topic, CITY, cities[0]), None])


def test_a_few_bytes_of_avro_do_not_claim_millions_of_items(
    url: str, registry: SchemaRegistry, converter: Make
) -> None:
    schema = {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}
    number = registry.register("claims-value", Schema(json.dumps(schema), "AVRO"))
    data = b"\0" + number.to_bytes(4, "big")
    read = converter("AVRO", url)
    assert len(read.to_connect("claims", data + b"\x04\0")[1]) == 2
    with pytest.raises(DataError, match="more items"):
        read.to_connect("claims", data + b"\x80\x9b\xee\x02\0")


def test_nested_messages_without_a_value_do_not_claim_millions_of_fields(
    url: str, registry: SchemaRegistry, converter: Make
) -> None:
    fields = " ".join(f"int32 f{number} = {number};" for number in range(1, 501))
    text = f'syntax = "proto3"; message Outer {{ repeated Inner inner = 1; }} message Inner {{ {fields} }}'
    number = registry.register("wide-value", Schema(text, "PROTOBUF"))
    data = b"\0" + number.to_bytes(4, "big") + b"\0"
    read = converter("PROTOBUF", url)
    assert len(read.to_connect("wide", data + b"\x0a\0")[1].get("inner")) == 1
    with pytest.raises(DataError, match="more fields"):
        read.to_connect("wide", data + b"\x0a\0" * 20_000)


def test_null_stays_null(url: str, converter: Make) -> None:
    made = converter("AVRO", url)
    assert made.from_connect("t", OPTIONAL_STRING, None) is None
    assert made.to_connect("t", None) == (None, None)


def test_a_registry_that_does_not_answer_is_tried_again(converter: Make) -> None:
    made = converter("AVRO", "http://127.0.0.1:9")
    with pytest.raises(RetriableError, match="No schema registry answers"):
        made.from_connect("t", STRING, "x")


def test_a_converter_without_the_address_of_the_registry_is_refused(converter: Make) -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        load_converter({"value.converter": CLASSES["AVRO"]}, {}, "value")


def test_a_json_schema_says_what_it_is_in_connect(
    url: str, registry: SchemaRegistry, converter: Make
) -> None:
    schema = (
        SchemaBuilder("Order")
        .field("id", INT16)
        .field("price", logical.decimal_schema(2))
        .field("note", ConnectSchema(SchemaType.STRING, True, "none", doc="a note"))
        .field("points", mapping(STRING, INT32))
        .build()
    )
    value = Struct(schema, {"id": 1, "price": decimal.Decimal("1.00"), "points": {"a": 1}})
    data = converter("JSON", url).from_connect("json-orders", schema, value)
    assert data is not None
    assert data[5:] == b'{"id":1,"price":"ZA==","note":"none","points":{"a":1}}'
    assert json.loads(registry.latest("json-orders-value").text) == {
        "type": "object",
        "title": "Order",
        "properties": {
            "id": {"type": "integer", "connect.type": "int16", "connect.index": 0},
            "price": {
                "type": "string",
                "title": "org.apache.kafka.connect.data.Decimal",
                "connect.version": 1,
                "connect.type": "bytes",
                "connect.parameters": {"scale": "2"},
                "connect.index": 1,
            },
            "note": {
                "oneOf": [{"type": "null"}, {"type": "string", "description": "a note", "default": "none"}],
                "connect.index": 2,
            },
            "points": {
                "type": "object",
                "connect.type": "map",
                "additionalProperties": {"type": "integer", "connect.type": "int32"},
                "connect.index": 3,
            },
        },
    }


def test_a_json_schema_of_somebody_else_is_read(url: str, registry: SchemaRegistry, converter: Make) -> None:
    document = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer"},
            "x": {"type": ["null", "number"]},
            "kind": {"enum": ["a", "b"]},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "place": {"$ref": "#/definitions/place"},
        },
        "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    number = registry.register("things-json-value", Schema(json.dumps(document), "JSON"))
    made = converter("JSON", url, use__optional__for__nonrequired="true")
    data = b"\0" + number.to_bytes(4, "big") + b'{"id":1,"kind":"b","either":5,"place":{"city":"Wien"}}'
    schema, value = made.to_connect("things-json", data)
    assert schema is not None
    assert [(each.name, each.schema.type, each.schema.optional) for each in schema.fields] == [
        ("id", SchemaType.INT64, False),
        ("x", SchemaType.FLOAT64, True),
        ("kind", SchemaType.STRING, True),
        ("either", SchemaType.STRUCT, True),
        ("place", SchemaType.STRUCT, True),
    ]
    assert (value.get("id"), value.get("x"), value.get("kind")) == (1, None, "b")
    assert value.get("either").values == [None, 5]
    assert value.get("place").values == ["Wien"]


def test_a_schema_of_another_kind_is_refused(url: str, converter: Make) -> None:
    data = converter("AVRO", url).from_connect("mixed", STRING, "x")
    with pytest.raises(DataError, match="is one of AVRO"):
        converter("JSON", url).to_connect("mixed", data)


TAG = "io.confluent.connect.protobuf.Tag"


def test_a_message_is_read_with_optional_fields(url: str, converter: Make) -> None:
    made = converter("PROTOBUF", url)
    data = made.from_connect("people-proto", PERSON, person())
    schema, value = made.to_connect("people-proto", data)
    assert schema is not None
    assert (schema.name, schema.version) == ("Person", 1)
    for index, (field, given) in enumerate(zip(schema.fields, PERSON.fields, strict=True), 1):
        assert (field.name, field.schema.type, field.schema.optional) == (given.name, given.schema.type, True)
        assert (field.schema.parameters or {})[TAG] == str(index)
    expected = person().values
    expected[4] = 0  # a field without a value is null
    expected[13] = value.get("city")
    assert value.values == expected
    assert value.get("city").values == ["London", "N1"]
    value.validate()


def test_null_is_kept_where_fields_are_optional(url: str, converter: Make) -> None:
    made = converter("PROTOBUF", url, optional__for__nullables="true")
    schema = SchemaBuilder("N").field("a", OPTIONAL_INT64).field("b", OPTIONAL_INT64).build()
    data = made.from_connect("nullables", schema, Struct(schema, {"b": 0}))
    assert made.to_connect("nullables", data)[1].values == [None, 0]


def test_a_proto_file_says_what_it_is_in_connect(url: str, registry: SchemaRegistry, converter: Make) -> None:
    schema = (
        SchemaBuilder("org.example.Order")
        .field("id", INT8)
        .field("price", logical.decimal_schema(2))
        .field("city", CITY)
        .field("others", array(CITY))
        .field("points", mapping(STRING, INT32))
        .build()
    )
    city = Struct(CITY, {"name": "x"})
    values = {"id": 1, "price": decimal.Decimal("1.00"), "city": city, "others": [city], "points": {"a": 1}}
    assert converter("PROTOBUF", url).from_connect("proto-orders", schema, Struct(schema, values))
    text = registry.latest("proto-orders-value").text
    for line in (
        "package org.example;",
        "int32 id = 1",
        '"connect.type"',
        "confluent.type.Decimal price = 2",
        "City city = 3;",
        "repeated City others = 4;",
        "map<string, int32> points = 5;",
        "message City {",
    ):
        assert line in text
    assert text.count("message City") == 1


def test_a_message_of_somebody_else_is_read(url: str, registry: SchemaRegistry, converter: Make) -> None:
    confluent = pytest.importorskip("confluent_kafka.schema_registry")
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext
    from google.protobuf.struct_pb2 import Value

    with confluent.SchemaRegistryClient({"url": url}) as client:
        serializer = ProtobufSerializer(Value, client, {"use.deprecated.format": False})
        data = serializer(Value(string_value="x"), SerializationContext("values", MessageField.VALUE))
    with pytest.raises(DataError, match="contains itself"):
        converter("PROTOBUF", url).to_connect("values", data)

    text = """
        syntax = "proto3";
        import "google/protobuf/timestamp.proto";
        message Other { int32 x = 1; }
        message Thing {
          enum Kind { A = 0; B = 1; }
          Kind kind = 1; repeated uint32 numbers = 2; google.protobuf.Timestamp at = 3;
          oneof either { string text = 4; Other other = 5; }
          map<int32, Other> others = 6; optional bool maybe = 7;
        }
    """
    number = registry.register("proto-things-value", Schema(text, "PROTOBUF"))
    payload = bytes([0x08, 1, 0x12, 2, 1, 2, 0x2A, 2, 0x08, 7, 0x32, 6, 0x08, 3, 0x12, 2, 0x08, 9])
    data = b"\0" + number.to_bytes(4, "big") + bytes([2, 2]) + payload
    schema, value = converter("PROTOBUF", url).to_connect("proto-things", data)
    assert schema is not None
    assert [each.name for each in schema.fields] == ["either_0", "kind", "numbers", "at", "others", "maybe"]
    assert (value.get("kind"), value.get("numbers"), value.get("at"), value.get("maybe")) == (
        "B",
        [1, 2],
        None,
        None,
    )
    assert value.get("either_0").get("other").values == [7]
    assert value.get("others")[3].values == [9]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (STRING, "x", "Unsupported root schema of type STRING"),
        (SchemaBuilder("X").field("a", array(array(INT8))).build(), {"a": [[1]]}, "Array cannot be nested"),
        (SchemaBuilder("X").field("a-b", INT8).build(), {"a-b": 1}, "cannot be a name in Protobuf"),
        (
            SchemaBuilder("X").field("a", mapping(FLOAT32, INT8)).build(),
            {"a": {}},
            "cannot be FLOAT32 in Protobuf",
        ),
    ],
)
def test_what_protobuf_cannot_say_is_refused(
    url: str, converter: Make, schema: ConnectSchema, value: Any, message: str
) -> None:
    given = Struct(schema, value) if isinstance(value, dict) else value
    with pytest.raises(DataError, match=message):
        converter("PROTOBUF", url).from_connect("refused", schema, given)
