"""The installed kafka-avro-console-producer and its relatives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker

AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
JSON_SCHEMA = '{"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": false}'
PROTOBUF = 'syntax = "proto3"; message Order { int32 id = 1; }'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(registry=True) as running:
        running.create_topic("refused")
        yield running


def run(broker: Broker, name: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name(name)), "--bootstrap-server", broker.bootstrap_servers]
    registry = ["--property", f"schema.registry.url={broker.schema_registry_url}"]
    return subprocess.run(
        [*command, *registry, *arguments], input=given, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("kind", "schema"), [("avro", AVRO), ("json-schema", JSON_SCHEMA), ("protobuf", PROTOBUF)]
)
def test_lines_go_in_and_come_out(broker: Broker, kind: str, schema: str) -> None:
    topic = f"{kind}-orders"
    written = run(
        broker,
        f"kafka-{kind}-console-producer",
        "--topic",
        topic,
        "--property",
        f"value.schema={schema}",
        given='{"id": 1}\n{"id": 2}\n',
    )
    assert written.returncode == 0, written.stderr
    assert all(bytes(record.value or b"")[0] == 0 for record in broker.records(topic))
    read = run(
        broker,
        f"kafka-{kind}-console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "2"),
    )
    assert read.stdout.splitlines() == ['{"id":1}', '{"id":2}'], read.stderr


def test_keys_have_schemas_too(broker: Broker) -> None:
    properties = {"value.schema": AVRO, "key.schema": '"string"', "parse.key": "true", "key.separator": "|"}
    options = [each for name, value in properties.items() for each in ("--property", f"{name}={value}")]
    written = run(
        broker, "kafka-avro-console-producer", "--topic", "keyed", *options, given='"k"|{"id": 1}\n'
    )
    assert written.returncode == 0, written.stderr
    read = run(
        broker,
        "kafka-avro-console-consumer",
        *("--topic", "keyed", "--from-beginning", "--max-messages", "1", "--property", "print.key=true"),
    )
    assert read.stdout == '"k"\t{"id":1}\n', read.stderr


@pytest.mark.parametrize(
    ("options", "line", "sentence"),
    [
        ((), '{"id": 1}', "Which schema has the value?"),
        (("--property", f"value.schema={AVRO}"), '{"id": "x"}', "JSON does not fit the schema"),
        (("--property", f"value.schema={AVRO}"), "no json", "The line is not JSON: no json"),
        (("--property", "value.schema={"), "1", "The schema registry refuses"),
        (("--property", "value.schema.id=999"), "1", "The schema registry refuses"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    broker: Broker, options: tuple[str, ...], line: str, sentence: str
) -> None:
    done = run(broker, "kafka-avro-console-producer", "--topic", "refused", *options, given=f"{line}\n")
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert broker.records("refused") == []
