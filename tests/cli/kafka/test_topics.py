"""kafka-topics, compared with the output of Kafka's tool."""

import re

import pytest

WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def test_the_first_topic_of_every_course(tools, unique):
    name = unique("first_topic")
    created = tools("topics", "--topic", name, "--create", "--partitions", 3, "--replication-factor", 1)
    assert created.lines == [WARNING, f"Created topic {name}."]
    assert name in tools("topics", "--list").lines
    described = tools("topics", "--describe", "--topic", name)
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: [^\t]*",
        described.lines[0],
    )
    assert described.lines[1:] == [
        f"\tTopic: {name}\tPartition: {number}\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: "
        for number in range(3)
    ]
    assert tools("topics", "--delete", "--topic", name).out == ""
    assert name not in tools("topics", "--list").lines


def test_a_topic_with_settings_shows_them(tools, unique):
    name = unique("compacted")
    settings = ["cleanup.policy=compact", "min.cleanable.dirty.ratio=0.001", "segment.ms=5000"]
    options = [part for setting in settings for part in ("--config", setting)]
    assert tools("topics", "--create", "--topic", name, *options).out == f"Created topic {name}.\n"
    heading = tools("topics", "--describe", "--topic", name).lines[0]
    # In the order of Java's hash map, like Kafka's tool
    assert heading.endswith("Configs: cleanup.policy=compact,min.cleanable.dirty.ratio=0.001,segment.ms=5000")
    overridden = tools("topics", "--describe", "--topics-with-overrides").lines
    assert [line for line in overridden if f"Topic: {name}\t" in line] == [heading]


def test_creating_twice_fails_unless_told_otherwise(tools, topic):
    failed = tools("topics", "--create", "--topic", topic, code=1)
    assert failed.out == f"Error while executing topic command : Topic '{topic}' already exists.\n"
    assert tools("topics", "--create", "--topic", topic, "--if-not-exists").out == ""


def test_a_topic_that_is_not_there(tools):
    for action in (["--describe"], ["--delete"], ["--alter", "--partitions", 2]):
        failed = tools("topics", *action, "--topic", "nowhere", code=1)
        assert (
            failed.out == "Error while executing topic command : Topic 'nowhere' does not exist as expected\n"
        )
        assert tools("topics", *action, "--topic", "nowhere", "--if-exists").out == ""


def test_partitions_can_only_grow(tools, topic):
    assert tools("topics", "--alter", "--topic", topic, "--partitions", 5).out == ""
    assert "PartitionCount: 5" in tools("topics", "--describe", "--topic", topic).out
    failed = tools("topics", "--alter", "--topic", topic, "--partitions", 2, code=1)
    assert "currently has 5 partition" in failed.out


def test_filters_show_partitions_without_headings(tools, topic):
    assert tools("topics", "--describe", "--topic", topic, "--under-replicated-partitions").out == ""
    assert tools("topics", "--describe", "--topic", topic, "--unavailable-partitions").out == ""
    assert len(tools("topics", "--describe", "--topic", topic, "--at-min-isr-partitions").lines) == 3


@pytest.mark.parametrize("name", ["__consumer_offsets", "__ottla_spark_commits_4711"])
def test_internal_topics_can_be_left_out(tools, kafka_broker, topic, name):
    if name == "__consumer_offsets":
        kafka_broker.ensure_internal_topic(name)
    else:
        kafka_broker.create_topic(name)
    assert name in tools("topics", "--list").lines
    assert name not in tools("topics", "--list", "--exclude-internal").lines
    assert name not in tools("topics", "--describe", "--exclude-internal").out
    assert f"{name}:0:" in tools("get-offsets").out
    assert name not in tools("get-offsets", "--exclude-internal-topics").out


def test_wrong_usage(tools):
    for args, sentence in (
        ([], "exactly one action"),
        (["--list", "--create"], "exactly one action"),
        (["--create"], '"[topic]"'),
        (["--alter", "--topic", "t"], '"[partitions]"'),
        (["--alter", "--topic", "t", "--config", "segment.ms=1"], "kafka-configs"),
        (["--list", "--if-exists"], "can't be used with"),
    ):
        failed = tools("topics", *args, code=1)
        assert sentence in failed.err
        assert len(failed.err.splitlines()) == 1


def test_an_option_without_effect_is_told(tools, topic):
    told = tools("topics", "--alter", "--topic", topic, "--partitions", "4", "--delete-config", "segment.ms")
    assert told.err.startswith("delete-config option is no longer supported")


def test_partitions_are_added_where_the_assignment_says(tools, topic):
    args = ("topics", "--alter", "--topic", topic, "--partitions", "4", "--replica-assignment")
    refused = tools(*args, "0,0,0,9", code=1)
    assert refused.out.endswith("includes broker 9, but no such broker is registered.\n")
    tools(*args, "0,0,0,0")
    assert "PartitionCount: 4" in tools("topics", "--describe", "--topic", topic).out


def test_a_setting_that_does_not_exist_is_said(tools, unique):
    failed = tools("topics", "--create", "--topic", unique("t"), "--config", "nope=1", code=1)
    assert failed.out.startswith("Error while executing topic command : Unknown topic config name: nope")
