"""Connector settings, and the messages for invalid ones."""

from __future__ import annotations

import pytest

from ottla.connect.config.connector_config import sink_config, sink_problems, source_config

MINIMAL = {"name": "c", "connector.class": "FileStreamSource"}


def test_the_settings_depend_on_the_transforms() -> None:
    config = MINIMAL | {
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": "(",
    }
    definition = source_config(config)
    assert {
        "transforms.cast.spec",
        "transforms.cast.negate",
        "predicates.p.pattern",
    } <= definition.keys.keys()
    assert definition.errors(config) == {
        "transforms.cast.spec": [
            'Missing required configuration "transforms.cast.spec" which has no default value.'
        ],
        "predicates.p.pattern": [
            "Invalid value ( for configuration predicates.p.pattern: Invalid regex: Unclosed group near index 1\n("
        ],
    }


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("tasks.max", "0", "Invalid value 0 for configuration tasks.max: Value must be at least 1"),
        (
            "errors.tolerance",
            "some",
            "Invalid value some for configuration errors.tolerance: String must be one of: none, all",
        ),
        ("transforms", "a,a", "Invalid value [a, a] for configuration transforms: Duplicate alias provided."),
        (
            "value.converter",
            "no.Such",
            "Invalid value no.Such for configuration value.converter: Class no.Such could not be found.",
        ),
        (
            "exactly.once.support",
            "maybe",
            "Invalid value maybe for configuration exactly.once.support: "
            "String must be one of (case insensitive): REQUIRED, REQUESTED",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_kafkas_words(setting: str, value: str, message: str) -> None:
    config = MINIMAL | {setting: value}
    assert source_config(config).errors(config)[setting] == [message]


def test_a_minimal_config_is_right() -> None:
    assert source_config(MINIMAL).errors(MINIMAL) == {}
    assert sink_config(MINIMAL).errors(MINIMAL) == {}


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        ({}, {"topics", "topics.regex"}, "Must configure one of topics or topics.regex"),
        (
            {"topics": "a", "topics.regex": "b"},
            {"topics", "topics.regex"},
            "topics and topics.regex are mutually exclusive options, but both are set.",
        ),
        (
            {"topics": "a,dlq", "errors.deadletterqueue.topic.name": "dlq"},
            {"topics"},
            "The DLQ topic 'dlq' may not be included in the list of topics ('topics=[a, dlq]') "
            "consumed by the connector",
        ),
        (
            {"topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"},
            {"topics.regex"},
            "The DLQ topic 'dlq' may not be matched by the regex for the topics ('topics.regex=d.*') "
            "consumed by the connector",
        ),
        ({"topics": "a"}, set(), ""),
    ],
)
def test_topics_of_a_sink(config: dict[str, str], settings: set[str], message: str) -> None:
    found = sink_problems(config)
    assert found.keys() == settings
    assert all(each == [message] for each in found.values())


def test_groups_of_topics_have_settings_of_their_own() -> None:
    config = MINIMAL | {
        "topic.creation.groups": "compacted",
        "topic.creation.default.partitions": "0",
        "topic.creation.compacted.include": "tables-(",
    }
    definition = source_config(config)
    found = definition.errors(config)
    assert found.keys() == {
        "topic.creation.default.replication.factor",
        "topic.creation.default.partitions",
        "topic.creation.compacted.include",
    }
    assert found["topic.creation.default.partitions"] == [
        "Invalid value 0 for configuration topic.creation.default.partitions: "
        "Number of partitions must be positive, or -1 to use the broker's default"
    ]
