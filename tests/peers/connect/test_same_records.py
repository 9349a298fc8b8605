"""The same configs give the same records on Kafka's own Connect and on ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.peers.apache_kafka import Unavailable, application_classpath
from bench.peers.kafka_connect import KafkaConnect
from ottla.client.settings import Settings, parse_servers
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import Engine
from ottla.connect.runtime.spark.host import ThreadHost
from ottla.testing import Broker
from tests.connect.runtime.conftest import Found, committed_records, wait_for

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TRANSFORMS = "org.apache.kafka.connect.transforms"

LINES = [
    "plain",
    "",
    "with ümläuts",
    '{"a": 1}',
    'tab\tand "quotes" and \\',
    "drop me",
    "\u001f control",
    "🙂",
    "last",
]


def _chain(*transforms: Mapping[str, str], **more: str) -> dict[str, str]:
    """Return transform settings; `type` omits the package."""
    names = [f"t{number}" for number in range(len(transforms))]
    found = {"transforms": ",".join(names), **more}
    for name, settings in zip(names, transforms, strict=True):
        for setting, value in settings.items():
            full = f"{_TRANSFORMS}.{value}" if setting == "type" else value
            found[f"transforms.{name}.{setting}"] = full
    return found


_JSON_PLAIN = {"value.converter": _JSON, "value.converter.schemas.enable": "false"}
_JSON_SCHEMAS = {"value.converter": _JSON, "value.converter.schemas.enable": "true"}
_JSON_KEYS = {"key.converter": _JSON, "key.converter.schemas.enable": "false"}
_HOIST = {"type": "HoistField$Value", "field": "line"}

#: Additional settings of a FileStream source.
SOURCES: dict[str, dict[str, str]] = {
    "strings": {},
    "json": _JSON_PLAIN,
    "json-with-schemas": _JSON_SCHEMAS,
    "hoisted": _chain(_HOIST, **_JSON_SCHEMAS),
    "inserted": _chain(
        _HOIST,
        {"type": "InsertField$Value", "static.field": "from", "static.value": "a file"},
        {"type": "InsertField$Value", "topic.field": "topic"},
        **_JSON_SCHEMAS,
    ),
    "keys": _chain(
        _HOIST,
        {"type": "ValueToKey", "fields": "line"},
        {"type": "ExtractField$Key", "field": "line"},
        **_JSON_PLAIN,
    ),
    "struct-keys": _chain(_HOIST, {"type": "ValueToKey", "fields": "line"}, **_JSON_PLAIN, **_JSON_KEYS),
    "masked": _chain(
        _HOIST,
        {"type": "InsertField$Value", "static.field": "secret", "static.value": "hush"},
        {"type": "MaskField$Value", "fields": "secret"},
        **_JSON_PLAIN,
    ),
    "renamed": _chain(
        _HOIST,
        {"type": "InsertField$Value", "static.field": "n", "static.value": "17"},
        {"type": "Cast$Value", "spec": "n:int64"},
        {"type": "ReplaceField$Value", "renames": "line:text,n:number"},
        **_JSON_SCHEMAS,
    ),
    "named": _chain(
        _HOIST,
        {"type": "SetSchemaMetadata$Value", "schema.name": "Line", "schema.version": "3"},
        **_JSON_SCHEMAS,
    ),
    "headers": _chain(
        {"type": "InsertHeader", "header": "origin", "value.literal": "42"},
        {"type": "InsertHeader", "header": "other", "value.literal": "gone"},
        {"type": "DropHeaders", "headers": "other"},
    ),
    "header-from": _chain(
        _HOIST,
        {"type": "HeaderFrom$Value", "fields": "line", "headers": "line", "operation": "copy"},
        **_JSON_PLAIN,
    ),
    "routed": _chain({"type": "RegexRouter", "regex": "(.*)-routed", "replacement": "$1-elsewhere"}),
    "filtered": {
        **_chain({"type": "Filter", "predicate": "here", "negate": "true"}),
        "predicates": "here",
        "predicates.here.type": f"{_TRANSFORMS}.predicates.TopicNameMatches",
        "predicates.here.pattern": ".*-filtered",
    },
    "flattened": _chain(
        _HOIST, {"type": "HoistField$Value", "field": "outer"}, {"type": "Flatten$Value"}, **_JSON_SCHEMAS
    ),
}

VALUES = [
    '{"id": 1, "name": "Ann", "price": 12.5, "at": 1700000000000, "deep": {"x": [1, 2, null], "y": null}}',
    '{"id": 22222222222, "name": "Bö", "price": 1e10, "at": 1700000000001, "deep": {"x": [], "y": "t"}}',
    '{"id": -3, "name": "", "price": 0.00001, "at": 0, "deep": {"x": [true], "y": 1.5}}',
]
WITH_SCHEMA = [
    json.dumps(
        {
            "schema": {
                "type": "struct",
                "optional": False,
                "fields": [
                    {"type": "int32", "optional": False, "field": "id"},
                    {"type": "string", "optional": True, "field": "name"},
                    {
                        "type": "int64",
                        "name": "org.apache.kafka.connect.data.Timestamp",
                        "version": 1,
                        "optional": True,
                        "field": "at",
                    },
                ],
            },
            "payload": payload,
        }
    )
    for payload in ({"id": 1, "name": "Ann", "at": 1700000000000}, {"id": 2, "name": None, "at": None})
]

#: Additional settings of a FileStream sink, and the topic's contents.
SINKS: dict[str, tuple[list[str], dict[str, str]]] = {
    "strings": (LINES, {}),
    # With more than one field the order would be Java's hash order there, and the text's order here.
    "maps": (['{"deep": {"x": [1, 2.5, null, "t", true]}}'], _JSON_PLAIN),
    "fields": (VALUES, _chain({"type": "ExtractField$Value", "field": "name"}, **_JSON_PLAIN)),
    "numbers": (VALUES, _chain({"type": "ExtractField$Value", "field": "price"}, **_JSON_PLAIN)),
    "cast": (
        VALUES,
        _chain(
            {"type": "Cast$Value", "spec": "id:string"},
            {"type": "ExtractField$Value", "field": "id"},
            **_JSON_PLAIN,
        ),
    ),
    "times": (
        VALUES,
        _chain(
            {
                "type": "TimestampConverter$Value",
                "field": "at",
                "target.type": "string",
                "format": "yyyy-MM-dd HH:mm:ss",
            },
            {"type": "ExtractField$Value", "field": "at"},
            **_JSON_PLAIN,
        ),
    ),
    "structs": (WITH_SCHEMA, _JSON_SCHEMAS),
    "struct-fields": (
        WITH_SCHEMA,
        _chain(
            {"type": "ReplaceField$Value", "exclude": "at"},
            {"type": "InsertField$Value", "offset.field": "offset", "partition.field": "partition"},
            **_JSON_SCHEMAS,
        ),
    ),
}


@pytest.fixture(scope="module")
def settings(ottla_broker: Broker) -> dict[str, str]:
    return {
        "bootstrap.servers": ottla_broker.bootstrap_servers,
        "key.converter": _STRING,
        "value.converter": _STRING,
        "offset.flush.interval.ms": "500",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    }


def _named(settings: Mapping[str, str], name: str) -> dict[str, str]:
    topics = {f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")}
    return {**settings, "group.id": name, **topics}


@pytest.fixture(scope="module")
def kafka(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaConnect]:
    try:
        application_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with KafkaConnect(tmp_path_factory.mktemp("kafka-connect"), _named(settings, "kafka")) as connect:
        yield connect


@pytest.fixture(scope="module")
def ours(ottla_broker: Broker, settings: dict[str, str]) -> Iterator[Engine]:
    named = _named(settings, "ours")
    ottla_broker.create_topic(named["offset.storage.topic"], 5, config={"cleanup.policy": "compact"})
    engine = Engine(None, WorkerConfig.from_properties(named), host=ThreadHost())
    yield engine
    engine.close()


def _content(record: Found) -> tuple[Any, ...]:
    headers = tuple((each["key"], each["value"]) for each in record.headers or ())
    return record.key, record.value, headers


def test_sources(ottla_broker: Broker, kafka: KafkaConnect, ours: Engine, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{line}\n" for line in LINES))
    client = Settings(parse_servers(ottla_broker.bootstrap_servers))
    running = []
    for name, settings in SOURCES.items():
        for who in ("kafka", "ours"):
            topic = f"in-{name}"
            # Some records contain the topic's name, so both sides share it, and a router separates them.
            config = {
                "name": f"{who}-in-{name}",
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "file": str(lines),
                "topic": topic,
                **settings,
            }
            route = {
                "transforms": ",".join(filter(None, (settings.get("transforms"), "who"))),
                "transforms.who.type": f"{_TRANSFORMS}.RegexRouter",
                "transforms.who.regex": "(.*)",
                "transforms.who.replacement": f"{who}-$1",
            }
            if name in ("strings", "json", "json-with-schemas"):
                config["topic"] = f"{who}-{topic}"  # these have no transforms
            else:
                config |= route
            if who == "kafka":
                kafka.put(config)
            else:
                running.append(ours.start(config["name"], config, on_change=lambda status: None))
    try:
        for name in SOURCES:
            topic = f"in-{name}" if name != "routed" else "in-elsewhere"
            expected = len(LINES)
            found = {}
            for who in ("kafka", "ours"):
                wait_for(
                    lambda: len(committed_records(client, f"{who}-{topic}")) >= expected,  # noqa: B023
                    f"{who}-{topic} has {len(committed_records(client, f'{who}-{topic}'))} records",
                )
                found[who] = [_content(each) for each in committed_records(client, f"{who}-{topic}")]
            assert found["ours"] == found["kafka"], name
    finally:
        for each in running:
            each.stop()


def test_sinks(ottla_broker: Broker, kafka: KafkaConnect, ours: Engine, tmp_path: Path) -> None:
    running = []
    for name, (values, settings) in SINKS.items():
        topic = f"out-{name}"
        ottla_broker.create_topic(topic)
        for value in values:
            ottla_broker.produce(topic, value.encode(), key=b"k", timestamp=1_700_000_000_000)
        for who in ("kafka", "ours"):
            config = {
                "name": f"{who}-out-{name}",
                "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
                "file": str(tmp_path / f"{who}-{name}"),
                "topics": topic,
                **settings,
            }
            if who == "kafka":
                kafka.put(config)
            else:
                running.append(ours.start(config["name"], config, on_change=lambda status: None))
    try:
        for name, (values, _) in SINKS.items():
            texts = {}
            for who in ("kafka", "ours"):
                path = tmp_path / f"{who}-{name}"
                lines = len(values)
                wait_for(
                    lambda: path.exists() and len(path.read_text().split("\n")) > lines,  # noqa: B023
                    f"{path.name} is not complete",
                )
                texts[who] = path.read_text()
            assert texts["ours"] == texts["kafka"], name
    finally:
        for each in running:
            each.stop()


def test_dead_letters(ottla_broker: Broker, kafka: KafkaConnect, ours: Engine, tmp_path: Path) -> None:
    """Both write the same records with the same headers in the same order; stack traces differ by language."""
    topic = "poisoned"
    ottla_broker.create_topic(topic)
    for value in (b"{", b'{"a": 1}', b"nonsense", b'"text"'):
        ottla_broker.produce(topic, value, key=b"k", headers=[("h", b"1")], timestamp=1_700_000_000_000)
    client = Settings(parse_servers(ottla_broker.bootstrap_servers))
    found = {}
    for who in ("kafka", "ours"):
        config = {
            "name": f"{who}-poisoned",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(tmp_path / who),
            "topics": topic,
            **_chain({"type": "ExtractField$Value", "field": "a"}, **_JSON_PLAIN),
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{who}-dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        running = None
        if who == "kafka":
            kafka.put(config)
        else:
            running = ours.start(config["name"], config, on_change=lambda status: None)
        wait_for(lambda: len(committed_records(client, f"{who}-dead")) >= 3, f"{who} has no dead letters")  # noqa: B023
        if running is not None:
            running.stop()
        found[who] = [
            (
                each.key,
                each.value,
                each.timestamp,
                [
                    (header["key"], header["value"].decode().replace(f"{who}-", ""))
                    for header in each.headers or ()
                    if not header["key"].endswith("stacktrace")
                ],
            )
            for each in committed_records(client, f"{who}-dead")
        ]
    assert found["ours"] == found["kafka"]


def test_a_source_is_handed_over_and_back_without_loss_or_repetition(
    ottla_broker: Broker, settings: dict[str, str], tmp_path: Path
) -> None:
    """Each worker ends without warning; the offsets topic tells the other where to continue."""
    try:
        application_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    lines = tmp_path / "lines"
    named = {**_named(settings, "handed-over"), "exactly.once.source.support": "enabled"}
    config = {
        "name": "lines",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(lines),
        "topic": "handed-over",
    }
    client = Settings(parse_servers(ottla_broker.bootstrap_servers))
    expected: list[str] = []

    def grow() -> None:
        new = [f"line {len(expected) + number}" for number in range(3000)]
        with lines.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        expected.extend(new)

    def arrived() -> bool:
        return len(committed_records(client, "handed-over")) >= len(expected)

    for turn in range(2):
        with KafkaConnect(tmp_path, named) as connect:
            connect.put(config)
            grow()
            wait_for(arrived, "Kafka's worker did not go on")
            grow()
            if turn:
                connect.kill()
        engine = Engine(None, WorkerConfig.from_properties(named), host=ThreadHost())
        running = engine.start(config["name"], config, on_change=lambda status: None)
        grow()
        wait_for(arrived, "our worker did not go on")
        grow()
        running.stop()
        engine.close()
    with KafkaConnect(tmp_path, named) as connect:
        connect.put(config)
        wait_for(arrived, "Kafka's worker did not go on")
    assert [(each.value or b"").decode() for each in committed_records(client, "handed-over")] == expected
