"""ZooKeeper from its own archive, then a broker in the background, and a second one that takes over."""

from __future__ import annotations

import re

from tests.walks.machine import Machine

AT = "--zookeeper localhost:2181"


def asked(machine: Machine, word: str) -> str:
    return "\n".join(machine(f"exec 3<>/dev/tcp/localhost/2181; printf {word} >&3; cat <&3"))


def test_01_zookeeper_starts_from_its_archive(machine: Machine) -> None:
    machine("mkdir -p zookeeper-3.4.6/conf")
    machine(
        "printf 'tickTime=2000\\ndataDir=/tmp/zookeeper\\nclientPort=2181\\n' > zookeeper-3.4.6/conf/zoo.cfg"
    )
    assert machine("zkServer.sh start") == ["Starting zookeeper ... STARTED"]
    assert machine.said == "Using config: zookeeper-3.4.6/conf/zoo.cfg\n"


def test_02_zookeeper_answers_four_letter_words(machine: Machine) -> None:
    assert asked(machine, "ruok") == "imok"
    for word, answer in (
        ("srvr", "Mode: standalone"), ("mntr", "zk_znode_count"), ("conf", "clientPort=2181"), ("cons", ":"),
    ):  # fmt: skip
        machine.repeat("true", lambda _, word=word, answer=answer: answer in asked(machine, word))  # type: ignore[misc]


def test_03_nodes_are_made_and_removed(machine: Machine) -> None:
    client = machine.terminal("zkCli.sh -server localhost:2181", r"\[zk: localhost:2181\(CONNECTED\) 0\]")
    for number, (typed, printed) in enumerate(
        [
            ("create /foo bar", "^Created /foo$"),
            ("get /foo", "^bar$"),
            ("set /foo baz", r"CONNECTED\) 3\]"),
            ("get /foo", "^baz$"),
            ("delete /foo", r"CONNECTED\) 5\]"),
            ("create /tree x", "^Created /tree$"),
            ("create /tree/leaf y", "^Created /tree/leaf$"),
            ("rmr /tree", r"CONNECTED\) 8\]"),
            ("history", "^7 - rmr /tree$"),
            ("ls /", r"^\[zookeeper\]$"),
        ],
        1,
    ):
        client.type(typed)
        client.wait_for(printed)
        client.wait_for(rf"CONNECTED\) {number}\]")
    client.type("quit")


def test_04_a_broker_runs_in_the_background(machine: Machine) -> None:
    # The archive's scripts are called by their path.
    machine("mkdir bin && ln -s $(dirname $(command -v kafka-topics.sh))/kafka-*.sh bin/")
    machine("bin/kafka-server-start.sh -daemon config/server.properties")
    created = machine(
        f"bin/kafka-topics.sh --create {AT} --topic mytopic --replication-factor 1 --partitions 1"
    )
    assert created == ["Created topic mytopic."]
    produce = "bin/kafka-console-producer.sh --broker-list localhost:9092 --topic mytopic"
    machine(f"{produce} --compress --request-required-acks 1", stdin="one\ntwo\n")
    assert machine.said == ""
    consume = f"bin/kafka-console-consumer.sh {AT} --topic mytopic --from-beginning"
    assert machine(f"{consume} --max-messages 2") == ["one", "two"]


def test_05_a_second_broker_takes_a_copy(machine: Machine) -> None:
    machine(
        "sed -e s/^broker.id=0/broker.id=1/ -e s/:9092/:9093/ -e s,/tmp/kafka-logs,/tmp/kafka-logs-1, "
        "config/server.properties > config/server-1.properties"
    )
    machine("kafka-server-start.sh -daemon config/server-1.properties")
    moves = '{"partitions":[{"topic":"mytopic","partition":0,"replicas":[0,1]}],"version":1}'
    machine(f"echo '{moves}' > /tmp/reassign.json")
    reassign = (
        "kafka-reassign-partitions.sh -zookeeper localhost:2181 --reassignment-json-file /tmp/reassign.json"
    )
    assert machine(f"{reassign} --execute")[-1].startswith("Successfully started")
    machine.repeat(f"{reassign} --verify", lambda lines: "is completed" in "".join(lines))
    machine.repeat(
        f"kafka-topics.sh --describe {AT} --topic mytopic", lambda lines: lines[1].endswith("Isr: 0,1")
    )
    machine(f"kafka-topics.sh {AT} --alter --topic mytopic --partitions 2")
    described = machine(f"kafka-topics.sh --describe {AT} --topic mytopic")
    assert "PartitionCount: 2" in described[0]


def test_06_one_broker_is_killed_and_nothing_is_lost(machine: Machine) -> None:
    reassign = (
        '{"partitions":[{"topic":"mytopic","partition":1,"replicas":[1,0]},'
        '{"topic":"__consumer_offsets","partition":0,"replicas":[1,0]}],"version":1}'
    )
    machine(f"echo '{reassign}' > /tmp/reassign.json")
    machine(f"kafka-topics.sh --list {AT}")
    machine(
        "kafka-reassign-partitions.sh -zookeeper localhost:2181 --reassignment-json-file /tmp/reassign.json --execute"
        " || true"
    )
    produce = "kafka-console-producer.sh --broker-list localhost:9092,localhost:9093 --topic mytopic"
    machine(produce, stdin="three\nfour\n")
    machine.repeat(
        f"kafka-topics.sh --describe {AT} --topic mytopic",
        lambda lines: all(re.search(r"Isr: (0,1|1,0)$", line) for line in lines[1:]),
    )
    machine("kill -9 $(pgrep -f config/server.properties)")
    machine.repeat(
        f"kafka-topics.sh --describe {AT} --topic mytopic",
        lambda lines: [re.search(r"Leader: (\S+)", line)[1] for line in lines[1:]] == ["1", "1"],  # type: ignore[index]
    )
    consumed = machine(
        f"kafka-console-consumer.sh {AT} --topic mytopic --from-beginning --max-messages 4", seconds=180
    )
    assert sorted(consumed) == ["four", "one", "three", "two"]
