"""`ottla topics …` against a broker."""

import pytest


def test_a_created_topic_is_listed_with_its_partitions(ottla, topic):
    listed = {row["name"]: row for row in ottla("topics", "list", "--json").json}
    assert listed[topic] == {"name": topic, "partitions": 3, "replication_factor": 1, "internal": False}
    table = [line.split() for line in ottla("topics", "list").lines]
    assert table[0] == ["TOPIC", "PARTITIONS", "REPLICATION-FACTOR"]
    assert [topic, "3", "1"] in table


def test_internal_topics_are_hidden_unless_asked_for(ottla, topic, group):
    ottla("consume", topic, "--group", group, "--until-end")  # makes the broker create __consumer_offsets
    assert "__consumer_offsets" not in ottla("topics", "list").text
    assert "__consumer_offsets" in ottla("topics", "list", "--internal").text


def test_describe_shows_partitions_offsets_size_and_settings(ottla, topic):
    ottla("configs", "set", "topic", topic, "retention.ms=123456")
    ottla("produce", topic, "-m", "one", "-m", "two", "--partition", 1)
    [described] = ottla("topics", "describe", topic, "--json").json
    assert described["name"] == topic
    assert len(described["topic_id"]) == 22
    assert described["configs"] == {"retention.ms": "123456"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert [p["end_offset"] for p in described["partitions"]] == [0, 2, 0]
    assert [p["start_offset"] for p in described["partitions"]] == [0, 0, 0]
    assert [p["size"] > 0 for p in described["partitions"]] == [False, True, False]
    for partition in described["partitions"]:
        assert partition["replicas"] == partition["isr"] == [partition["leader"]]
    shown = ottla("topics", "describe", topic).text
    assert "retention.ms=123456" in shown
    assert "PARTITION  LEADER  REPLICAS  ISR  START-OFFSET  END-OFFSET  MESSAGES  SIZE" in shown


def test_a_topic_that_exists_is_not_created_again(ottla, topic):
    again = ottla("topics", "create", topic, check=False)
    assert (again.code, again.err) == (1, f"Error: Topic '{topic}' already exists.\n")
    assert ottla("topics", "create", topic, "--if-not-exists").code == 0


def test_create_takes_settings_and_refuses_unknown_ones(ottla, unique):
    name = unique("compacted")
    ottla("topics", "create", name, "--config", "cleanup.policy=compact", "-c", "segment.ms=5000")
    [described] = ottla("topics", "describe", name, "--json").json
    assert described["configs"] == {"cleanup.policy": "compact", "segment.ms": "5000"}
    ottla("topics", "delete", name, "--yes")
    wrong = ottla("topics", "create", unique("wrong"), "--config", "no.such.setting=1", check=False)
    assert wrong.code == 1
    assert "no.such.setting" in wrong.err
    assert len(wrong.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["with blank", "a" * 250, "slash/ed"])
def test_a_bad_name_is_one_sentence(ottla, name):
    refused = ottla("topics", "create", name, check=False)
    assert refused.code == 1
    assert refused.err.startswith("Error: ")
    assert len(refused.err.splitlines()) == 1


def test_delete_wants_a_confirmation(ottla, topic):
    refused = ottla("topics", "delete", topic, check=False)
    assert refused.code == 1
    assert "--yes" in refused.err
    assert ottla("topics", "delete", topic, "--yes").text == f"Deleted topic {topic}.\n"
    assert topic not in ottla("topics", "list").text


def test_delete_of_several_deletes_nothing_if_one_is_missing(ottla, topic, unique):
    refused = ottla("topics", "delete", "--yes", topic, unique("missing"), check=False)
    assert refused.code == 1
    assert topic in ottla("topics", "list").text
    ottla("topics", "delete", "--yes", "--if-exists", unique("missing"))


def test_alter_adds_partitions_and_changes_settings(ottla, topic):
    ottla("topics", "alter", topic, "--partitions", 5, "--config", "retention.ms=1000")
    [described] = ottla("topics", "describe", topic, "--json").json
    assert len(described["partitions"]) == 5
    assert described["configs"] == {"retention.ms": "1000"}
    ottla("topics", "alter", topic, "--delete-config", "retention.ms")
    assert ottla("topics", "describe", topic, "--json").json[0]["configs"] == {}
    fewer = ottla("topics", "alter", topic, "--partitions", 2, check=False)
    assert fewer.code == 1
    assert len(fewer.err.splitlines()) == 1


def test_trim_deletes_what_lies_before_an_offset(ottla, topic):
    ottla("produce", topic, "--partition", 0, stdin=b"a\nb\nc\nd\n")
    ottla("topics", "trim", topic, "--partition", 0, "--before-offset", 3, "--yes")
    assert ottla("consume", topic, "--from-beginning", "--until-end").lines == ["d"]
    trimmed = ottla("topics", "trim", topic, "--yes", "--json").json
    assert {row["partition"]: row["start_offset"] for row in trimmed} == {0: 4, 1: 0, 2: 0}


def test_a_missing_topic_is_named_with_the_nearest_one(ottla, topic):
    missing = ottla("topics", "describe", topic[:-1], check=False)
    assert missing.code == 1
    assert missing.err == f"Error: Topic '{topic[:-1]}' does not exist. Did you mean '{topic}'?\n"


@pytest.mark.parametrize("name", ["__ottla_spark_commits_4711", "__ottla_sql"])
def test_topics_of_pipelines_and_sql_are_internal(ottla, name):
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient

    ottla("topics", "create", name, "--if-not-exists")
    assert name not in ottla("topics", "list").text
    assert name in ottla("topics", "list", "--internal").text
    assert [each["internal"] for each in ottla("topics", "describe", name, "--json").json] == [True]
    # Kafka's clients receive the flag, so their patterns skip the topic.
    admin = AdminClient({"bootstrap.servers": ottla.environment["OTTLA_BOOTSTRAP_SERVER"]})
    [described] = admin.describe_topics(TopicCollection([name])).values()
    assert described.result(30).is_internal
    ottla("topics", "delete", name, "--yes")
