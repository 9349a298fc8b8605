"""Datagen follows its schema and continues at its offset after a crash."""

from __future__ import annotations

import json
import random
import re

import pytest

from ottla.connect import ConfigError, ConnectError, Struct
from ottla.connect.connectors.datagen import patterns
from ottla.connect.connectors.datagen.connector import DatagenConnector
from ottla.connect.connectors.datagen.generator import Generator
from ottla.connect.connectors.datagen.quickstarts import QUICKSTARTS
from ottla.testing.connect import SourceHarness

FAST = {"kafka.topic": "made-up", "max.interval": "0", "random.seed": "1"}


@pytest.mark.parametrize("name", sorted(QUICKSTARTS))
def test_a_quickstart_gives_structs_with_keys(name: str) -> None:
    with SourceHarness(DatagenConnector, {**FAST, "quickstart": name.upper(), "iterations": "50"}) as source:
        records = source.run(50)
        with pytest.raises(ConnectError, match="generated the configured 50 number of messages"):
            source.poll()
    assert len(records) == 50
    for record in records:
        assert isinstance(record.value, Struct)
        assert record.key == record.value.get(QUICKSTARTS[name].key) is not None
        assert all(value is not None for value in record.value.values)


def test_records_are_the_same_with_and_without_crashes() -> None:
    config = {**FAST, "quickstart": "orders", "iterations": "2000"}
    with SourceHarness(DatagenConnector, config) as source:
        expected = [record.value for record in source.run(2000)]
    with SourceHarness(DatagenConnector, {**config, "random.seed": "1"}) as source:
        for _ in range(3):
            source.poll()
            source.crash()
            source.poll()
            source.crash_after_commit()
        assert [record.value for record in source.run(2000)] == expected
        assert source.offsets[0][0] == {"task.id": 0}
        assert source.offsets[0][1]["current.iteration"] == 2000
    assert [value.get("orderid") for value in expected] == list(range(2000))


def test_without_a_seed_a_restarted_task_keeps_the_one_it_had() -> None:
    config = {"kafka.topic": "t", "max.interval": "0", "quickstart": "users", "iterations": "1000"}
    with SourceHarness(DatagenConnector, config) as source:
        source.poll()
        source.commit()
        seed = source.offsets[0][1]["random.seed"]
        source.restart()
        source.run(1000)
        assert source.offsets[0][1]["random.seed"] == seed
    headers = {header.key: header.value for header in source.committed[-1].headers}
    assert headers == {"task.generation": 1, "task.id": 0, "current.iteration": 999}


def test_the_end_comes_only_when_all_is_committed() -> None:
    with SourceHarness(DatagenConnector, {**FAST, "quickstart": "users", "iterations": "10"}) as source:
        assert len(source.poll()) == 10
        assert source.poll() == []
        source.commit()
        with pytest.raises(ConnectError, match="Stopping connector"):
            source.poll()


def test_tasks_differ() -> None:
    with SourceHarness(DatagenConnector, {**FAST, "quickstart": "users"}, max_tasks=2) as source:
        records = source.poll()
    halves = [[r.value for r in records if r.source_partition == {"task.id": task}] for task in range(2)]
    assert halves[0] != halves[1]
    assert len(halves[0]) == len(halves[1]) > 0


def test_a_schema_of_ones_own() -> None:
    schema = {
        "type": "record",
        "name": "Reading",
        "fields": [
            {
                "name": "id",
                "type": {
                    "type": "int",
                    "arg.properties": {"iteration": {"start": 5, "step": 5, "restart": 15}},
                },
            },
            {"name": "ok", "type": {"type": "boolean", "arg.properties": {"odds": 1.0}}},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "note", "type": ["null", {"type": "string", "arg.properties": {"regex": "x{3}"}}]},
            {"name": "other", "type": "Kind"},
        ],
    }
    config = {**FAST, "schema.string": json.dumps(schema), "schema.keyfield": "kind", "iterations": "100"}
    with SourceHarness(DatagenConnector, config) as source:
        values = [record.value for record in source.run(100)]
    assert [value.get("id") for value in values[:4]] == [5, 10, 5, 10]
    assert {value.get("ok") for value in values} == {True}
    assert {value.get("kind") for value in values} == {"A", "B"} == {value.get("other") for value in values}
    assert {value.get("note") for value in values} == {None, "xxx"}
    assert values[0].schema.name == "Reading"


@pytest.mark.parametrize(
    "pattern",
    [
        "User_[1-9]{0,1}",
        "a|b|cd",
        "(ab)+c?",
        r"\d{3}-\w*",
        "[^a-y]",
        "x.y",
        "^[A-F]{2,}$",
        "[+.-]",
        r"\$\.",
        "(?:no|yes) ",
    ],
)
def test_text_matches_its_pattern(pattern: str) -> None:
    make = patterns.maker(pattern)
    chance = random.Random(1)
    for _ in range(100):
        text = make(chance)
        assert re.fullmatch(pattern, text), text


@pytest.mark.parametrize("pattern", ["(a", "[a", "*a", "a{x}", "a)", "a\\", "[]"])
def test_a_pattern_that_cannot_be_used_is_named(pattern: str) -> None:
    with pytest.raises(ConnectError, match="cannot be used to make up text"):
        patterns.maker(pattern)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"quickstart": "nothing"}, "There is no quickstart 'nothing'. There are: users,"),
        ({}, "Set exactly one of quickstart"),
        ({"quickstart": "users", "schema.string": "{}"}, "Set exactly one of quickstart"),
        ({"schema.string": "{"}, "The schema is not JSON"),
        ({"schema.string": '{"type": "int"}'}, "has to be a record"),
        (
            {"schema.string": '{"type": "record", "name": "r", "fields": [{"name": "f", "type": "x"}]}'},
            "the type 'x'",
        ),
        ({"schema.filename": "/no/such/file"}, "Unable to read the '/no/such/file' schema file"),
        ({"schema.string": '{"type": "record", "name": "r"}', "schema.keyfield": "k"}, "has no field 'k'"),
    ],
)
def test_bad_settings_are_named(config: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        SourceHarness(DatagenConnector, {**FAST, **config})


def test_an_interval_paces_the_records() -> None:
    config = {**FAST, "quickstart": "users", "max.interval": "5", "iterations": "20"}
    with SourceHarness(DatagenConnector, config) as source:
        assert len(source.run(20)) == 20


def test_a_generator_refuses_an_iteration_without_end() -> None:
    endless = {"iteration": {"start": 5, "step": -1, "restart": 9}}
    field = {"name": "n", "type": {"type": "int", "arg.properties": endless}}
    with pytest.raises(ConnectError, match="never reaches 9"):
        Generator({"type": "record", "name": "r", "fields": [field]}, 0)
