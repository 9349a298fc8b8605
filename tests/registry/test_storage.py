"""The topic `_schemas`: our records, Confluent's records, and rejected topics."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid

import pytest

from ottla.http.background import InBackground
from ottla.registry.log import UnusableTopic
from ottla.registry.server import RegistryServer
from ottla.registry.settings import RegistrySettings
from ottla.testing import Broker
from tests.registry.conftest import Api, record

TOPIC = "_schemas"


def start(broker: Broker, **settings: str) -> InBackground:
    properties = {
        "kafkastore.bootstrap.servers": f"PLAINTEXT://{broker.bootstrap_servers}",
        "listeners": "http://127.0.0.1:0",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    wanted = RegistrySettings.from_properties(properties)
    return InBackground(lambda: RegistryServer(wanted), "schema-registry")


def test_records_are_byte_for_byte_those_of_confluent():
    with Broker(registry=True) as broker:
        api = Api(broker.schema_registry_url)
        api.register("t-value", '{"type": "string"}')
        api.register(
            "p-value",
            'syntax = "proto3";\nmessage P {\n  string a = 1;\n}\n',
            schemaType="PROTOBUF",
            metadata={"properties": {"b": "2", "a": "1"}},
        )
        api("PUT", "/config", {"compatibility": "FULL"})
        api("PUT", "/mode/t-value", {"mode": "READWRITE"})
        api("DELETE", "/subjects/t-value/versions/1")
        api("DELETE", "/subjects/p-value")
        api("DELETE", "/subjects/t-value/versions/1?permanent=true")
        found = [(each.key, each.value) for each in broker.records(TOPIC)]
    md5 = base64.b64encode(hashlib.md5(b'"string"').digest()).decode()
    proto = json.loads(found[2][1])
    assert found[:2] == [
        (b'{"keytype":"NOOP","magic":0}', None),
        (
            b'{"keytype":"SCHEMA","subject":"t-value","version":1,"magic":1}',
            b'{"subject":"t-value","version":1,"id":1,"md5":"%s","schema":"\\"string\\"","deleted":false}'
            % md5.encode(),
        ),
    ]
    assert list(proto) == ["subject", "version", "id", "md5", "schemaType", "metadata", "schema", "deleted"]
    assert proto["metadata"] == {"properties": {"a": "1", "b": "2"}}
    assert found[3:] == [
        (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (b'{"keytype":"MODE","subject":"t-value","magic":0}', b'{"mode":"READWRITE"}'),
        (found[1][0], found[1][1].replace(b'"deleted":false', b'"deleted":true')),
        (b'{"keytype":"DELETE_SUBJECT","subject":"p-value","magic":0}', b'{"subject":"p-value","version":1}'),
        (found[1][0], None),
        (b'{"keytype":"MODE","subject":"t-value","magic":0}', None),
    ]


# Written by Confluent's registry: older records without md5, keys of the global config with and without a subject, and
# unknown fields.
CONFLUENTS = [
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"CONFIG","magic":0}', '{"compatibilityLevel":"NONE"}'),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FORWARD","subject":null}'),
    (
        '{"keytype":"SCHEMA","subject":"old-value","version":1,"magic":1}',
        '{"subject":"old-value","version":1,"id":7,"schema":"\\"string\\"","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"old-value","version":2,"magic":1}',
        '{"subject":"old-value","version":2,"id":9,"md5":"bm90IHRoZSBtZDU=","schema":"\\"bytes\\"","deleted":true,'
        '"offset":3,"ts":1700000000000,"unknown":{"a":1}}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"gone-value","version":1,"magic":1}',
        '{"subject":"gone-value","version":1,"id":8,"schema":"\\"long\\"","deleted":false}',
    ),
    ('{"keytype":"DELETE_SUBJECT","subject":"gone-value","magic":0}', '{"subject":"gone-value","version":1}'),
    (
        '{"keytype":"SCHEMA","subject":":.dev:a-value","version":1,"magic":1}',
        '{"subject":":.dev:a-value","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
    ),
    (
        '{"keytype":"CONTEXT","tenant":"default","context":".empty"}',
        '{"tenant":"default","context":".empty"}',
    ),
    ('{"keytype":"SOMETHING_NEW","magic":0}', '{"x":1}'),
    ("not json", "at all"),
    ('{"keytype":"SCHEMA","subject":"broken","version":1,"magic":1}', '{"subject":"broken"}'),
    ('{"keytype":"MODE","subject":"old-value","magic":0}', '{"mode":"READWRITE"}'),
]


def test_a_topic_of_confluent_is_taken_over():
    with Broker() as broker:
        broker.create_topic(TOPIC, 1, {"cleanup.policy": "compact"})
        for key, value in CONFLUENTS:
            broker.produce(TOPIC, None if value is None else value.encode(), key=key.encode())
        with start(broker) as registry:
            api = Api(registry.url)
            assert api.get("/subjects") == [":.dev:a-value", "old-value"]
            assert api.get("/subjects?deleted=true") == [":.dev:a-value", "gone-value", "old-value"]
            assert api.get("/config") == {"compatibilityLevel": "FORWARD"}
            assert api.get("/contexts") == [".", ".dev", ".empty"]
            assert api.get("/schemas/ids/9") == {"schemaType": "AVRO", "schema": '"bytes"'}
            # Lookup by schema works with any md5.
            found = api("POST", "/subjects/old-value", {"schema": '{"type":"string"}'})
            assert found.body["id"] == 7
            assert api.id_of("new-value", '"string"') == 7
            assert api.id_of("newer-value", '["string","null"]') == 10
            guid = str(uuid.UUID(bytes=hashlib.md5(b'"string"').digest()))
            assert api.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 7}]


def test_another_registry_continues_where_one_ended():
    with Broker(registry=True) as broker:
        api = Api(broker.schema_registry_url)
        first = [api.id_of(f"s{number}-value", record(f"R{number}", "x")) for number in range(5)]
        api("DELETE", "/subjects/s4-value")
        before = {
            path: api.get(path) for path in ("/subjects", "/subjects?deleted=true", "/schemas?deleted=true")
        }
        broker.restart()
        assert broker.schema_registry_url == api.url
        assert {path: api.get(path) for path in before} == before
        assert api.id_of("next-value", record("Next", "x")) == max(first) + 1


def test_topics_that_would_lose_schemas_are_refused():
    with Broker() as broker:
        broker.create_topic("two", 2, {"cleanup.policy": "compact"})
        broker.create_topic("deleting", 1, {"cleanup.policy": "delete"})
        with pytest.raises(UnusableTopic, match="should have only 1 partition but has 2"):
            start(broker, kafkastore_topic="two").start()
        with pytest.raises(UnusableTopic, match=r"set its cleanup\.policy to compact"):
            start(broker, kafkastore_topic="deleting").start()


def test_a_topic_that_is_created_is_compacted():
    with Broker() as broker, start(broker, kafkastore_topic="my-schemas") as registry:
        assert Api(registry.url).id_of("a-value", '"int"') == 1
        with start(broker, kafkastore_topic="my-schemas", schema_registry_group_id="other") as second:
            assert Api(second.url).get("/subjects") == ["a-value"]
        assert len(broker.records("my-schemas")) >= 2


@pytest.mark.parametrize("api_name", ["Produce", "Fetch", "Metadata"])
def test_faults_of_the_broker_are_waited_out(api_name):
    with Broker(registry=True) as broker:
        api = Api(broker.schema_registry_url)
        assert api.id_of("a-value", '"int"') == 1
        broker.drop(api_name, 2)
        assert api.id_of("b-value", '"long"') == 2
        broker.clear_faults()
        assert api.id_of("c-value", '"bytes"') == 3


def test_a_write_whose_answer_was_lost_is_done_once():
    with Broker(registry=True) as broker:
        api = Api(broker.schema_registry_url)
        assert api.id_of("a-value", '"int"') == 1
        broker.drop("Produce", 1, after=True)
        assert api.id_of("b-value", '"long"') == 2
        keys = [each.key for each in broker.records(TOPIC)]
    assert len([key for key in keys if b"b-value" in key]) == 1
