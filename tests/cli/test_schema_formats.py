"""`ottla produce` and `ottla consume` with keys and values whose schemas a registry keeps."""

from __future__ import annotations

import json

import pytest

from ottla.testing import Broker
from tests.cli.conftest import Ottla

ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":"string"}]}'
)
PROTO = 'syntax = "proto3";\nmessage Order {\n  int32 id = 1;\n  string note = 2;\n}\n'
READ = ("--from-beginning", "--until-end", "--quiet")


@pytest.fixture(scope="module")
def broker():
    with Broker(registry=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def schemas(broker):
    ottla = Ottla(broker.bootstrap_servers)
    ottla.environment["OTTLA_SCHEMA_REGISTRY_URL"] = broker.schema_registry_url
    return ottla


def test_values_are_read_as_json_without_asking(schemas, broker, tmp_path, unique):
    topic = unique("orders")
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    line = b'{"id": 1, "note": "x"}\n'
    schemas("produce", topic, "--value-format", "avro", "--value-schema", file, stdin=line)
    [record] = broker.records(topic)
    assert bytes(record.value)[:1] == b"\0"
    assert bytes(record.value)[5:] == b"\x02\x02x"
    assert schemas("consume", topic, *READ).text == '{"id":1,"note":"x"}\n'
    assert schemas("consume", topic, *READ, "--value-format", "avro").text == '{"id":1,"note":"x"}\n'
    assert schemas("consume", topic, *READ, "--value-format", "raw").out == bytes(record.value) + b"\n"


def test_no_byte_is_lost_in_json_lines(schemas, broker, unique):
    topic, copy = unique("orders"), unique("copy")
    schemas("produce", topic, "--value-format", "avro", "--value-schema", '"string"', "-m", '"x"')
    lines = schemas("consume", topic, *READ, "--json").out
    schemas("produce", copy, "--json-lines", stdin=lines)
    assert [bytes(each.value) for each in broker.records(copy)] == [
        bytes(each.value) for each in broker.records(topic)
    ]
    asked = schemas("consume", topic, *READ, "--json", "--value-format", "auto").json
    assert json.loads(asked["value"]) == "x"


def test_keys_have_formats_of_their_own(schemas, unique):
    topic = unique("orders")
    schemas("schema", "register", f"{topic}-value", "-", "--type", "protobuf", stdin=PROTO.encode())
    schemas(
        "produce", topic, "--key-separator", ":",
        "--key-format", "avro", "--key-schema", "long", "--value-format", "protobuf",
        stdin=b'7:{"id": 1, "note": "x"}\n',
    )  # fmt: skip
    said = schemas("consume", topic, *READ, "--print-key")
    assert said.text == '7\t{"id":1,"note":"x"}\n'
    template = schemas("consume", topic, *READ, "--format", "%k = %v\\n")
    assert template.text == '7 = {"id":1,"note":"x"}\n'
    assert '"note":"x"' in schemas("consume", topic, *READ, "--details").text


def test_the_id_of_a_schema(schemas, unique):
    topic = unique("orders")
    subject = unique("elsewhere")
    said = schemas("schema", "register", subject, "-", "--type", "json", stdin=b'{"type": "object"}').text
    number = said.split()[-1].rstrip(".")
    schemas("produce", topic, "--value-format", "json-schema", "--value-schema-id", number, "-m", '{"a": 1}')
    assert schemas("consume", topic, *READ).text == '{"a":1}\n'


def test_values_that_only_look_like_it_stay_as_they_are(schemas, broker, unique):
    topic = unique("bytes")
    schemas("topics", "create", topic)
    broker.produce(topic, b"\0\0\0\x7f\xff abc")
    broker.produce(topic, b"plain")
    assert schemas("consume", topic, *READ).out == b"\0\0\0\x7f\xff abc\nplain\n"


def test_without_a_registry_nothing_changes(broker, unique):
    alone = Ottla(broker.bootstrap_servers)
    alone.environment["OTTLA_SCHEMA_REGISTRY_URL"] = "http://127.0.0.1:1"
    topic = unique("bytes")
    alone("topics", "create", topic)
    broker.produce(topic, b"\0\0\0\0\x01abc")
    assert alone("consume", topic, *READ).out == b"\0\0\0\0\x01abc\n"
    failed = alone("consume", topic, *READ, "--value-format", "avro", check=False)
    assert failed.code == 1
    assert "No schema registry answers at http://127.0.0.1:1" in failed.err


def test_what_cannot_be_is_one_sentence(schemas, broker, unique):
    topic = unique("orders")
    schemas("topics", "create", topic)
    broker.produce(topic, b"plain")
    for args, said in (
        (("consume", topic, *READ, "--value-format", "avro"), "It does not begin with the id of a schema."),
        (("produce", topic, "--value-format", "avro", "-m", "1"), f"Subject '{topic}-value' not found."),
        (
            ("produce", topic, "--value-format", "avro", "--value-schema", "no.avsc"),
            "There is no file no.avsc.",
        ),
        (
            ("produce", topic, "--value-format", "avro", "--value-schema", ORDER, "-m", '{"id": "x"}'),
            "does not fit schema",
        ),
        (
            ("produce", topic, "--value-format", "avro", "--value-schema", '"string"', "-m", "no json"),
            "is incompatible with an earlier schema",
        ),
        (("produce", topic, "--value-schema", ORDER, "-m", "x"), "--value-schema needs --value-format"),
        (
            ("produce", topic, "--value-format", "avro", "--value-schema", "x", "--value-schema-id", 1),
            "Choose one of --value-schema and --value-schema-id.",
        ),
    ):
        result = schemas(*args, check=False)
        assert result.code != 0
        assert said in result.err, result.err


def test_sql_finds_the_registry(schemas, broker, unique, tmp_path, monkeypatch):
    pytest.importorskip("sqlglot")
    pytest.importorskip("pyspark")
    monkeypatch.setitem(schemas.environment, "XDG_STATE_HOME", str(tmp_path))
    name = unique("s").replace("-", "_").upper()
    schemas(
        "sql",
        "-e",
        f"CREATE STREAM {name} (k INT KEY, a INT) WITH (kafka_topic='{name}', partitions=1, value_format='AVRO');"
        f"INSERT INTO {name} VALUES (1, 7); CREATE STREAM I_{name} WITH (kafka_topic='{name}', value_format='AVRO');",
    )
    monkeypatch.delitem(schemas.environment, "OTTLA_SCHEMA_REGISTRY_URL")
    said = schemas(
        "sql",
        "--schema-registry",
        broker.schema_registry_url,
        "-e",
        f"DESCRIBE I_{name}; PRINT '{name}' FROM BEGINNING LIMIT 1;",
    )
    assert said.lines[1].split() == ["A", "INTEGER"]
    assert '{"A":{"int":7}}' in said.lines[-1]
