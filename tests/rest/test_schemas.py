"""Avro, JSON Schema and Protobuf through the proxy, with the registry and third-party clients at the other end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla.http.background import InBackground
from ottla.rest.server import RestProxy
from ottla.rest.settings import RestSettings
from ottla.testing import Broker

AVRO = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "age", "type": ["null", "int"], "default": None},
        ],
    }
)
JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    }
)
PROTOBUF = 'syntax = "proto3"; package p; message User { string name = 1; repeated int32 ages = 2; }'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(broker: Broker) -> Iterator[InBackground]:
    settings = RestSettings(
        {"bootstrap.servers": broker.bootstrap_servers},
        port=0,
        schema_registry_url=broker.schema_registry_url,
    )
    with InBackground(lambda: RestProxy(settings), "rest") as running:
        yield running


def produce(http: httpx.Client, topic: str, kind: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"Content-Type": f"application/vnd.kafka.{kind}.v2+json"}
    return http.post(f"/topics/{topic}", content=json.dumps(body), headers=headers)


def read(http: httpx.Client, topic: str, kind: str, count: int) -> list[Any]:
    options = {"format": kind, "auto.offset.reset": "earliest", "name": "i"}
    base = http.post(f"/consumers/g-{uuid.uuid4()}", json=options).json()["base_uri"]
    http.post(f"{base}/subscription", json={"topics": [topic]})
    found: list[Any] = []
    while len(found) < count:
        answer = http.get(f"{base}/records", headers={"Accept": f"application/vnd.kafka.{kind}.v2+json"})
        assert answer.status_code == 200, answer.text
        found += [record["value"] for record in answer.json()]
    http.delete(base)
    return found


@pytest.mark.parametrize(
    ("kind", "schema", "value"),
    [
        ("avro", AVRO, {"name": "ann", "age": {"int": 7}}),
        ("avro", AVRO, {"name": "bob", "age": None}),
        ("avro", '"long"', 5),
        ("jsonschema", JSON_SCHEMA, {"name": "ann"}),
        ("protobuf", PROTOBUF, {"name": "ann", "ages": [1, 2]}),
    ],
)
def test_what_is_written_is_read(http: httpx.Client, topic: str, kind: str, schema: str, value: Any) -> None:
    first = produce(http, topic, kind, {"value_schema": schema, "records": [{"value": value}]}).json()
    again = {"value_schema_id": first["value_schema_id"], "records": [{"value": value}]}
    assert produce(http, topic, kind, again).json()["value_schema_id"] == first["value_schema_id"]
    assert read(http, topic, kind, 2) == [value, value]


def test_other_clients_read_it_and_are_read(http: httpx.Client, broker: Broker, topic: str) -> None:
    produce(
        http,
        topic,
        "avro",
        {"value_schema": AVRO, "records": [{"value": {"name": "ann", "age": {"int": 7}}}]},
    )
    context = SerializationContext(topic, MessageField.VALUE)
    [data] = [bytes(each.value or b"") for part in (0, 1) for each in broker.records(topic, part)]
    with SchemaRegistryClient({"url": broker.schema_registry_url}) as registry:
        assert AvroDeserializer(registry)(data, context) == {"name": "ann", "age": 7}
        theirs = AvroSerializer(registry, AVRO)({"name": "bob", "age": None}, context)
    broker.produce(topic, theirs, partition=0)
    assert {"name": "bob", "age": None} in read(http, topic, "avro", 2)


def test_v3_brings_its_schema_along(http: httpx.Client, topic: str) -> None:
    [cluster] = http.get("/v3/clusters").json()["data"]
    path = f"{cluster['metadata']['self']}/topics/{topic}/records"
    value = {"type": "AVRO", "schema": AVRO, "data": {"name": "ann", "age": None}}
    written = http.post(path, json={"value": value}).json()
    assert (written["error_code"], written["value"]["subject"]) == (200, f"{topic}-value")
    by_id = {"schema_id": written["value"]["schema_id"], "data": {"name": "bob", "age": None}}
    assert http.post(path, json={"value": by_id}).json()["error_code"] == 200
    latest = {"type": "AVRO", "data": {"name": "cid", "age": None}}
    assert http.post(path, json={"value": latest}).json()["error_code"] == 200
    assert [each["name"] for each in sorted(read(http, topic, "avro", 3), key=lambda each: each["name"])] == [
        "ann",
        "bob",
        "cid",
    ]


@pytest.mark.parametrize(
    ("kind", "body", "status", "code"),
    [
        ("avro", {"records": [{"value": 1}]}, 422, 42202),
        ("avro", {"value_schema": '"string"', "records": [{"key": 1, "value": "a"}]}, 422, 42201),
        ("avro", {"value_schema": "{", "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema": '"int"', "records": [{"value": "a"}]}, 422, 42203),
        ("avro", {"value_schema_id": 999, "records": [{"value": "a"}]}, 404, 40403),
        ("avro", {"value_schema_id": "x", "records": [{"value": "a"}]}, 400, 400),
        ("jsonschema", {"value_schema": JSON_SCHEMA, "records": [{"value": {"age": 1}}]}, 422, 42203),
        ("protobuf", {"value_schema": PROTOBUF, "records": [{"value": {"nothing": 1}}]}, 422, 42203),
    ],
)
def test_what_does_not_fit_is_refused_and_not_written(
    http: httpx.Client, broker: Broker, topic: str, kind: str, body: dict[str, Any], status: int, code: int
) -> None:
    answer = produce(http, topic, kind, body)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text
    assert broker.records(topic, 0) == broker.records(topic, 1) == []


def test_an_incompatible_schema_is_refused(http: httpx.Client, topic: str) -> None:
    produce(http, topic, "avro", {"value_schema": '"string"', "records": [{"value": "a"}]})
    answer = produce(http, topic, "avro", {"value_schema": '"int"', "records": [{"value": 1}]})
    assert answer.status_code == 422
    assert "incompatible" in answer.json()["message"]


def test_a_record_without_a_schema_is_named(http: httpx.Client, broker: Broker, topic: str) -> None:
    broker.produce(topic, b"no schema", partition=0)
    made = http.post(f"/consumers/g-{uuid.uuid4()}", json={"format": "avro", "auto.offset.reset": "earliest"})
    base = made.json()["base_uri"]
    http.post(f"{base}/assignments", json={"partitions": [{"topic": topic, "partition": 0}]})
    answer = http.get(f"{base}/records")
    while answer.status_code == 200:
        answer = http.get(f"{base}/records")
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42203)
    assert f"{topic}-0, offset 0" in answer.json()["message"]


@pytest.mark.parametrize(
    ("kind", "schema"), [("avro", "{"), ("avro", '{"type": "recrd"}'), ("protobuf", "message")]
)
def test_an_invalid_schema(http: httpx.Client, topic: str, kind: str, schema: str) -> None:
    answer = produce(http, topic, kind, {"value_schema": schema, "records": [{"value": {}}]})
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42205)
    assert answer.json()["message"].startswith("Invalid schema: ")


def test_an_id_in_quotes_is_taken_as_the_number(http: httpx.Client, topic: str) -> None:
    first = produce(http, topic, "avro", {"value_schema": '"long"', "records": [{"value": 1}]}).json()
    quoted = {"value_schema_id": str(first["value_schema_id"]), "records": [{"value": 2}]}
    assert produce(http, topic, "avro", quoted).json()["value_schema_id"] == first["value_schema_id"]
    wrong = produce(http, topic, "avro", {"value_schema_id": "one", "records": [{"value": 2}]})
    assert (wrong.status_code, "schema_id must be a number" in wrong.json()["message"]) == (400, True)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TOPIC_NAME", "{topic}-value"), ("RECORD_NAME", "User"), ("TOPIC_RECORD_NAME", "{topic}-User")],
)
def test_subject_name_strategies(http: httpx.Client, topic: str, strategy: str, subject: str) -> None:
    [cluster] = http.get("/v3/clusters").json()["data"]
    value = {"type": "AVRO", "schema": AVRO, "data": {"name": "ann", "age": None}}
    path = f"{cluster['metadata']['self']}/topics/{topic}/records"
    written = http.post(path, json={"value": {**value, "subject_name_strategy": strategy}}).json()
    assert written["value"]["subject"] == subject.format(topic=topic)
    both = {**value, "subject_name_strategy": strategy, "subject": "s"}
    assert http.post(path, json={"value": both}).json()["error_code"] == 400


@pytest.mark.parametrize(
    ("uri", "status"), [("https://example.com/mine", 200), ("http://json-schema.org/draft-07/shema#", 422)]
)
def test_meta_schemas_of_others_and_mistyped_ones(
    http: httpx.Client, topic: str, uri: str, status: int
) -> None:
    """A schema that can be registered can be written with."""
    schema = json.dumps({"$schema": uri, "type": "object", "required": ["a"]})
    written = produce(http, topic, "jsonschema", {"value_schema": schema, "records": [{"value": {"a": 1}}]})
    assert written.status_code == status, written.text
    invalid = produce(http, topic, "jsonschema", {"value_schema": schema, "records": [{"value": {}}]})
    assert invalid.status_code == 422
