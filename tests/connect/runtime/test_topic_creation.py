"""Source topics are created by the rules of KIP-158."""

from __future__ import annotations

import uuid

import pytest

from ottla.client.admin.topics import describe_topics
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings, parse_servers
from ottla.connect import ConfigError
from ottla.connect.runtime.records.topic_creation import TopicCreation
from ottla.testing import Broker

_DEFAULT = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "2"}


def test_a_topic_belongs_to_the_first_group_that_matches_it() -> None:
    creation = TopicCreation(
        {
            **_DEFAULT,
            "topic.creation.groups": "logs, fast",
            "topic.creation.logs.include": "logs-.*, audit",
            "topic.creation.logs.exclude": "logs-debug",
            "topic.creation.logs.cleanup.policy": "compact",
            "topic.creation.fast.include": ".*",
            "topic.creation.fast.partitions": "12",
            "topic.creation.fast.replication.factor": "-1",
        }
    )
    logs, debug = creation.group_of("logs-web"), creation.group_of("logs-debug")
    assert logs is not None
    assert (logs.name, logs.partitions, logs.replication_factor, logs.configs) == (
        "logs",
        2,
        1,
        {"cleanup.policy": "compact"},
    )
    assert debug is not None
    assert (debug.name, debug.partitions, debug.replication_factor) == ("fast", 12, -1)


def test_patterns_are_javas() -> None:
    rules = {**_DEFAULT, "topic.creation.groups": "a", "topic.creation.a.include": r"\p{Lower}+\Q.x\E"}
    group = TopicCreation(rules).group_of("logs.x")
    assert group is not None
    assert group.name == "a"
    with pytest.raises(ConfigError, match="Java-compliant regular expression"):
        TopicCreation({**rules, "topic.creation.a.include": "(?P<python>x)"})


def test_without_rules_topics_are_left_to_the_broker() -> None:
    assert TopicCreation({}).group_of("any") is None
    assert TopicCreation(_DEFAULT, enabled=False).group_of("any") is None


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"topic.creation.default.partitions": "1"},
            'Missing required configuration "topic.creation.default.replication.factor"',
        ),
        (
            {**_DEFAULT, "topic.creation.groups": "a"},
            'Missing required configuration "topic.creation.a.include"',
        ),
        ({**_DEFAULT, "topic.creation.default.partitions": "0"}, "Number of partitions must be positive"),
        (
            {**_DEFAULT, "topic.creation.groups": "a", "topic.creation.a.include": "("},
            "Invalid value ( for configuration topic.creation.a.include",
        ),
    ],
)
def test_rules_that_make_no_sense_are_refused(config: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TopicCreation(config)
    assert sentence in refused.value.message


def test_a_topic_is_created_once_as_its_group_says(ottla_broker: Broker) -> None:
    topic = f"created-{uuid.uuid4().hex[:6]}"
    creation = TopicCreation({**_DEFAULT, "topic.creation.default.retention.ms": "77"})
    cluster = Cluster(Settings(parse_servers(ottla_broker.bootstrap_servers)))
    creation.ensure(cluster, topic)
    creation.ensure(cluster, topic)
    (described,) = describe_topics(cluster, [topic], with_configs=True)
    assert len(described.partitions) == 2
    assert described.configs == {"retention.ms": "77"}
    cluster.close()
