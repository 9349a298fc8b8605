"""One broker: topics, producing, consuming, groups, offsets, keys and settings, as in the oldest tutorials."""

from __future__ import annotations

import re

from tests.walks.machine import Machine, Terminal

COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
TOPICS = "kafka-topics --zookeeper 0.0.0.0:2181"
PRODUCE = "kafka-console-producer --broker-list 127.0.0.1:9092"
CONSUME = "kafka-console-consumer --bootstrap-server 127.0.0.1:9092"
GROUPS = "kafka-consumer-groups --bootstrap-server localhost:9092"
GROUP = "consumer_group_1"
COLUMNS = [
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
]


def described(machine: Machine, topic: str) -> list[str]:
    return machine(f"{TOPICS} --topic {topic} --describe")


def rows(machine: Machine, options: str) -> list[list[str]]:
    """The table of a group without its heading."""
    return [line.split() for line in machine(f"{GROUPS} {options}") if line.startswith(GROUP)]


def test_01_servers_start(machine: Machine) -> None:
    machine.terminal("zookeeper-server-start config/zookeeper.properties", "binding to port")
    machine.terminal("kafka-server-start config/server.properties", r"\[KafkaServer id=0\] started")


def test_02_a_topic_is_created(machine: Machine) -> None:
    created = machine(f"{TOPICS} --topic first_topic --create --partitions 3 --replication-factor 1")
    assert created == [COLLISION, "Created topic first_topic."]
    assert machine.said == ""


def test_03_topics_are_listed_and_described(machine: Machine) -> None:
    assert machine(f"{TOPICS} --list") == ["first_topic"]
    heading, *partitions = described(machine, "first_topic")
    assert re.fullmatch(
        r"Topic: first_topic\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: ", heading
    )
    assert partitions == [
        f"\tTopic: first_topic\tPartition: {number}\tLeader: 0\tReplicas: 0\tIsr: 0" for number in range(3)
    ]


def test_04_lines_are_produced(machine: Machine) -> None:
    producer = machine.terminal(f"{PRODUCE} --topic first_topic", ">")
    producer.type("hello world", "my name is ann", "learning", "more", "messages", "six")
    producer.wait_for("(>[^>]*){7}")
    producer.ctrl_c()
    producer = machine.terminal(f"{PRODUCE} --topic first_topic --producer-property acks=all", ">")
    assert producer.text == ">"
    producer.type("acked")
    producer.ctrl_d()


def test_05_a_new_topic_is_created_by_producing(machine: Machine) -> None:
    producer = machine.terminal(f"{PRODUCE} --topic new_topic", ">")
    producer.type("first", "second")
    assert "{new_topic=LEADER_NOT_AVAILABLE}" in producer.ctrl_d()
    assert "\tPartitionCount: 1\t" in described(machine, "new_topic")[0]
    assert sorted(machine(f"{TOPICS} --list")) == ["first_topic", "new_topic"]


def test_06_everything_is_consumed_from_the_beginning(machine: Machine) -> None:
    consumer = machine.terminal(f"{CONSUME} --topic first_topic --from-beginning")
    for line in ("hello world", "six", "acked"):
        consumer.wait_for(f"^{line}$")
    assert consumer.ctrl_c().splitlines()[-1] == "Processed a total of 7 messages"


def test_07_three_members_share_a_group_that_continues_where_it_was(machine: Machine) -> None:
    members = [machine.terminal(f"{CONSUME} --topic first_topic --group {GROUP}") for _ in range(3)]

    def are_three(lines: list[str]) -> bool:
        return len({each.split()[6] for each in lines[2:] if each.split()[1] == "first_topic"}) == 3

    machine.repeat(f"{GROUPS} --describe --group={GROUP}", are_three)
    producer = machine.terminal(f"{PRODUCE} --topic first_topic", ">")
    typed = [f"typed {number}" for number in range(6)]
    producer.type(*typed)

    def got(member: Terminal) -> list[str]:
        return [line for line in member.lines if line.startswith("typed ")]

    machine.repeat("true", lambda _: sorted(line for each in members for line in got(each)) == typed)
    assert [len(got(member)) for member in members] == [2, 2, 2]
    for member in members:
        assert member.ctrl_c().splitlines()[-1] == "Processed a total of 2 messages"
    producer.type("while nobody reads")
    producer.ctrl_d()
    again = machine.terminal(f"{CONSUME} --topic first_topic --group {GROUP}", "^while nobody reads$")
    assert again.ctrl_c().splitlines()[-1] == "Processed a total of 1 messages"


def test_08_groups_are_listed_described_and_moved(machine: Machine) -> None:
    assert machine(f"{GROUPS} --list") == [GROUP]
    member = machine.terminal(f"{CONSUME} --topic first_topic --group {GROUP}")
    described = machine.repeat(
        f"{GROUPS} --describe --group={GROUP}", lambda lines: any(" /127.0.0.1 " in line for line in lines)
    )
    assert described[1].split() == COLUMNS
    member.ctrl_c()
    ends = {}
    for group, topic, partition, current, end, lag, *who in rows(machine, f"--describe --group={GROUP}"):
        assert (group, topic, current, lag, who) == (GROUP, "first_topic", end, "0", ["-", "-", "-"])
        ends[partition] = int(end)
    assert machine.said == f"\nConsumer group '{GROUP}' has no active members.\n"
    assert sum(ends.values()) == 14

    def reset(how: str) -> dict[str, int]:
        moved = rows(machine, f"--group {GROUP} --reset-offsets {how} --execute --topic first_topic")
        return {partition: int(offset) for _, _, partition, offset in moved}

    assert reset("--to-earliest") == dict.fromkeys(ends, 0)
    assert reset("--shift-by 2") == {each: min(2, end) for each, end in ends.items()}
    assert reset("--shift-by 100") == ends
    assert machine.said.count("is higher than latest offset for topic partition") == 3
    assert reset("--shift-by -2") == {each: max(0, end - 2) for each, end in ends.items()}
    back = sum(min(2, end) for end in ends.values())
    consumer = machine.terminal(
        f"{CONSUME} --topic first_topic --group {GROUP}", rf"(?s)(\n?[^\n]+\n){{{back}}}"
    )
    assert consumer.ctrl_c().splitlines()[-1] == f"Processed a total of {back} messages"
    missing = machine(f"{GROUPS} --describe --group=nobody", code=1)
    assert missing[-1].endswith("Group nobody not found.")


def test_09_keys_are_produced_and_printed(machine: Machine) -> None:
    separator = "--property key.separator=,"
    machine(f"{PRODUCE} --topic first_topic --property parse.key=true {separator}", stdin="a,1\nb,2\na,3\n")
    assert machine.said == ""
    consumed = machine(
        f"{CONSUME} --topic first_topic --from-beginning --property print.key=true {separator} --max-messages 17"
    )
    assert [line for line in consumed if line.startswith("a,")] == ["a,1", "a,3"]
    assert "null,hello world" in consumed


def test_10_settings_of_a_topic_come_and_go(machine: Machine) -> None:
    machine(f"{TOPICS} --topic configured_topic --create --partitions 3 --replication-factor 1")
    configs = "kafka-configs --zookeeper 0.0.0.0:2181 --entity-type topics --entity-name configured_topic"
    machine(f"{configs} --add-config min.insync.replicas=2 --alter")
    assert "min.insync.replicas=2" in machine(f"{configs} --describe")[1]
    assert described(machine, "configured_topic")[0].endswith("\tConfigs: min.insync.replicas=2")
    machine(f"{configs} --delete-config min.insync.replicas --alter")
    assert described(machine, "configured_topic")[0].endswith("\tConfigs: ")


def test_11_a_topic_is_deleted(machine: Machine) -> None:
    machine(f"{TOPICS} --topic second_topic --create --partitions 6 --replication-factor 1")
    assert machine(f"{TOPICS} --topic second_topic --delete") == [
        "Topic second_topic is marked for deletion.",
        "Note: This will have no impact if delete.topic.enable is not set to true.",
    ]
    assert "second_topic" not in machine(f"{TOPICS} --list")
