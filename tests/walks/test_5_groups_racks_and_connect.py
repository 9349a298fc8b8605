"""Consumers with and without a group, six brokers in two racks, and a file that becomes messages."""

from __future__ import annotations

import re

from tests.walks.machine import Machine

AT = "--bootstrap-server localhost:9092"
PRODUCE = "kafka-console-producer --broker-list localhost:9092 --topic NEWS"
CONSUME = f"kafka-console-consumer {AT} --topic NEWS"
NEWS = [f"news {number}" for number in range(4)]


def broker_file(machine: Machine, number: int, *more: str) -> str:
    settings = [f"broker.id={number}", f"listeners=PLAINTEXT://:{9092 + number}", *more]
    settings += [f"log.dirs=/tmp/kafka-logs-{number}", "zookeeper.connect=localhost:2181"]
    file = f"config/news-{number}.properties"
    machine.path(file).write_text("".join(f"{line}\n" for line in settings))
    return file


def test_01_brokers_in_two_racks_start(machine: Machine) -> None:
    machine.terminal("zookeeper-server-start config/zookeeper.properties", "binding to port")
    for number in range(6):
        file = broker_file(
            machine, number, f"broker.rack=rack-{number % 2}", "offsets.topic.replication.factor=3"
        )
        machine.terminal(f"kafka-server-start {file}", rf"id={number}\] started")


def test_02_copies_alternate_between_the_racks(machine: Machine) -> None:
    machine(f"kafka-topics {AT} --create --topic racks --partitions 10 --replication-factor 3")
    _, *partitions = machine(f"kafka-topics {AT} --describe --topic racks")
    assert len(partitions) == 10
    for line in partitions:
        replicas = re.search(r"Replicas: (\S+)", line)
        assert replicas is not None
        racks = [int(each) % 2 for each in replicas[1].split(",")]
        assert racks in ([0, 1, 0], [1, 0, 1])


def test_03_consumers_without_a_group_each_see_everything(machine: Machine) -> None:
    machine(
        "kafka-topics --zookeeper localhost:2181 --create --topic NEWS --partitions 2 --replication-factor 1"
    )
    machine(PRODUCE, stdin="".join(f"{line}\n" for line in NEWS))
    for _ in range(2):
        assert sorted(machine(f"{CONSUME} --from-beginning --max-messages 4")) == NEWS


def test_04_consumers_of_a_group_share(machine: Machine) -> None:
    machine("echo group.id=g1 > group.properties")
    members = [machine.terminal(f"{CONSUME} --consumer.config group.properties") for _ in range(2)]

    def are_two(lines: list[str]) -> bool:
        return len({line.split()[6] for line in lines[2:] if line.split()[1] == "NEWS"}) == 2

    machine.repeat(f"kafka-consumer-groups {AT} --describe --group g1", are_two)
    producer = machine.terminal(PRODUCE, ">")
    producer.type(*(f"more {number}" for number in range(4)))
    for member in members:
        member.wait_for(r"(?s)(^more \d.*){2}")
        assert member.ctrl_c().splitlines()[-1] == "Processed a total of 2 messages"
    producer.ctrl_d()


def test_05_lines_of_a_file_become_messages(machine: Machine) -> None:
    machine("printf 'foo\\nbar\\n' > test.txt")
    source = ("name=file", "connector.class=FileStreamSource", "file=test.txt", "topic=lines")
    machine.path("source.properties").write_text("".join(f"{line}\n" for line in source))
    worker = machine.terminal("connect-standalone config/connect-standalone.properties source.properties")
    worker.wait_for("Connect worker is ready", seconds=240)
    consume = f"kafka-console-consumer {AT} --topic lines --from-beginning --max-messages 2"
    assert machine(consume, seconds=180) == [
        f'{{"schema":{{"type":"string","optional":false}},"payload":"{line}"}}' for line in ("foo", "bar")
    ]
    worker.ctrl_c()
