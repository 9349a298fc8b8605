"""kafka-streams-application-reset"""

import signal

import pytest

from ottla.cli.kafka.groups.streams_application_reset import internal_topics


@pytest.fixture
def application(kafka_broker, tools, topic, unique):
    """An application that has read its input, with its internal topics."""
    name = unique("app")
    for number in range(6):
        kafka_broker.produce(topic, b"%d" % number, partition=number % 3)
    for suffix in ("count-changelog", "by-key-repartition", "output"):
        kafka_broker.create_topic(f"{name}-{suffix}")
    tools("consumer-groups", "--group", name, "--topic", topic, "--reset-offsets", "--to-latest", "--execute")
    return name


def committed(tools, group):
    lines = tools("consumer-groups", "--describe", "--group", group).lines
    return [line.split()[3] for line in lines if line.startswith(group)]


def test_an_application_begins_anew(tools, topic, application):
    command = (
        "streams-application-reset",
        "--application-id",
        application,
        "--input-topics",
        f"{topic},nowhere",
    )
    internal = [f"{application}-by-key-repartition", f"{application}-count-changelog"]
    moved = [
        f"Reset-offsets for input topics [{topic}, nowhere]",
        "Following input topics are not found, skipping them",
        "Topic: nowhere",
        f"Following input topics offsets will be reset to (for consumer group {application})",
        *(f"Topic: {topic} Partition: {number} Offset: 0" for number in range(3)),
        "Done.",
        f"Deleting inferred internal topics [{', '.join(internal)}]",
        "Done.",
    ]
    dry = tools(*command, "--dry-run", code=1)
    assert dry.lines[1:] == moved
    assert committed(tools, application) == ["2", "2", "2"]
    assert tools(*command, code=1).lines == moved
    assert committed(tools, application) == ["0", "0", "0"]
    left = [name for name in tools("topics", "--list").lines if name.startswith(application)]
    assert left == [f"{application}-output"]


def test_it_may_begin_elsewhere(tools, topic, application, tmp_path):
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,1\n{topic},1,0\n{topic},2,9\n")
    command = ("streams-application-reset", "--application-id", application, "--input-topics", topic)
    assert (
        "New offset (9) is higher than latest offset. Value will be set to 2"
        in tools(*command, "--from-file", plan).lines
    )
    assert committed(tools, application) == ["1", "0", "2"]
    tools(*command, "--shift-by", -1)
    assert committed(tools, application) == ["0", "0", "1"]
    tools(*command, "--to-latest")
    assert committed(tools, application) == ["2", "2", "2"]
    tools(*command, "--to-datetime", "2001-01-01T00:00:00.000")
    assert committed(tools, application) == ["0", "0", "0"]


def test_only_internal_topics_are_deleted(tools, application):
    command = ("streams-application-reset", "--application-id", application, "--internal-topics")
    refused = tools(*command, f"{application}-output", code=1)
    assert refused.err.startswith("ERROR: Invalid topic specified in the --internal-topics option.")
    assert tools(*command, f"{application}-count-changelog").lines[1:] == [
        f"Deleting specified internal topics [{application}-count-changelog]",
        "Done.",
    ]


def test_an_application_that_runs_is_left_alone_unless_forced(tools, topic, application):
    running = tools.start("console-consumer", "--topic", topic, "--group", application, "--from-beginning")
    try:
        describe = ("consumer-groups", "--describe", "--group", application, "--state")
        while "Stable" not in tools(*describe).out:
            assert running.poll() is None
        command = ("streams-application-reset", "--application-id", application)
        refused = tools(*command, code=1)
        assert refused.err.startswith(
            f"ERROR: Consumer group '{application}' is still active and has following "
        )
        assert len(refused.err.splitlines()) == 1
        running.send_signal(signal.SIGSTOP)  # its members will not return
        forced = tools(*command, "--force", "--input-topics", topic, "--dry-run")
        assert forced.lines[0] == f"Force deleting all active members in the group: {application}"
    finally:
        running.send_signal(signal.SIGCONT)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)


def test_what_makes_no_sense(tools):
    assert tools("streams-application-reset", code=1).err == "Missing required option(s) [application-id]\n"
    two = tools("streams-application-reset", "--application-id", "a", "--to-latest", "--shift-by", 1, code=1)
    assert two.err == 'Option "[to-latest]" can\'t be used with option "[shift-by]"\n'


def test_which_topics_are_internal():
    mine = ["a-x-changelog", "a-x-repartition", "a-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic"]
    others = ["a-output", "ab-x-changelog", "a-changelogs", "x-changelog"]
    assert internal_topics("a", [*mine, *others]) == sorted(mine)
