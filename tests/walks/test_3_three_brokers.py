"""Three brokers on one machine: copies, a broker that stops, a log directory that is deleted, a group of two."""

from __future__ import annotations

import re
from collections import Counter

from tests.walks.machine import Machine

TOPICS = "kafka-topics --zookeeper localhost:2181"
CUSTOMERS = 12_434


def described(machine: Machine, topic: str) -> list[tuple[str, set[int], set[int]]]:
    """Return the leader, replicas and ISR of each partition."""
    _, *lines = machine(f"{TOPICS} --describe --topic {topic}")
    found = [re.search(r"Leader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)$", line) for line in lines]
    return [
        (each[1], *(set(map(int, filter(None, each[part].split(",")))) for part in (2, 3)))
        for each in found
        if each is not None
    ]  # type: ignore[misc]


def are_healthy(machine: Machine, topic: str) -> bool:
    return all(isr == replicas for _, replicas, isr in described(machine, topic))


def zookeeper(machine: Machine, *commands: str) -> str:
    """Return the last line that `zookeeper-shell` prints for the commands."""
    return machine("zookeeper-shell localhost:2181", stdin="".join(f"{each}\n" for each in commands))[-1]


def start(machine: Machine, broker: int) -> None:
    machine.terminal(f"kafka-server-start config/server{broker}.properties", rf"id={broker}\] started")


def test_01_three_brokers_start_from_copies_of_the_file(machine: Machine) -> None:
    machine.terminal("zookeeper-server-start config/zookeeper.properties", "binding to port")
    for broker, port in enumerate((9092, 9093, 9094)):
        machine(
            f"sed -e s/^broker.id=0/broker.id={broker}/ -e s/:9092/:{port}/ "
            f"-e s,/tmp/kafka-logs,/tmp/kafka-logs-{broker}, "
            f"config/server.properties > config/server{broker}.properties"
        )
        start(machine, broker)


def test_02_copies_are_spread(machine: Machine) -> None:
    machine(f"{TOPICS} --create --topic many_reps --partitions 6 --replication-factor 3")
    machine.repeat("true", lambda _: are_healthy(machine, "many_reps"))
    leaders = Counter(leader for leader, _, _ in described(machine, "many_reps"))
    assert leaders == {"0": 2, "1": 2, "2": 2}
    assert all(isr == {0, 1, 2} for _, _, isr in described(machine, "many_reps"))


def test_03_messages_go_in_and_out_through_any_broker(machine: Machine) -> None:
    every = "'localhost:9092, localhost:9093, localhost:9094'"
    machine(f"kafka-console-producer --broker-list {every} --topic many_reps", stdin="one\ntwo\n")
    machine("kafka-console-producer --broker-list localhost:9094 --topic many_reps", stdin="three\n")
    consumed = machine(
        "kafka-console-consumer --bootstrap-server localhost:9093 --topic many_reps --from-beginning "
        "--max-messages 3"
    )
    assert sorted(consumed) == ["one", "three", "two"]


def test_04_a_broker_stops_and_the_others_go_on(machine: Machine) -> None:
    consumer = machine.terminal(
        "kafka-console-consumer --bootstrap-server localhost:9093,localhost:9094 --topic many_reps --from-beginning",
        "^three$",
    )
    machine(f"{TOPICS} --create --topic only_copy --replica-assignment 0")
    machine("kafka-console-producer --broker-list localhost:9093 --topic only_copy", stdin="irreplaceable\n")
    machine("kafka-server-stop config/server0.properties")
    machine.repeat("true", lambda _: zookeeper(machine, "ls /brokers/ids") == "[1, 2]")
    machine.repeat("true", lambda _: '"brokerid":0' not in zookeeper(machine, "get /controller"))
    assert re.search(r'"brokerid":[12],', zookeeper(machine, "get /controller"))
    assert "0" not in {leader for leader, _, _ in described(machine, "many_reps")}
    machine("kafka-console-producer --broker-list localhost:9093 --topic many_reps", stdin="still here\n")
    consumer.wait_for("^still here$")
    assert consumer.ctrl_c().splitlines()[-1] == "Processed a total of 4 messages"


def test_05_a_deleted_log_directory_heals(machine: Machine) -> None:
    machine("rm -r /tmp/kafka-logs-0")
    start(machine, 0)
    machine.repeat("true", lambda _: are_healthy(machine, "many_reps"))
    [log] = machine("ls /tmp/kafka-logs-0/many_reps-0/*.log")
    assert machine(f"kafka-dump-log --files {log}")[:2] == [f"Dumping {log}", "Log starting offset: 0"]
    dumped = [
        machine(f"cd /tmp/kafka-logs-0/many_reps-{each} && kafka-dump-log --files *.log") for each in range(6)
    ]
    counts = [int(count) for lines in dumped for count in re.findall(r" count: (\d+) ", "\n".join(lines))]
    assert sum(counts) == 4


def test_06_a_lost_only_copy_is_given_up_by_the_command_in_the_log(machine: Machine) -> None:
    assert described(machine, "only_copy")[0][0] == "none"
    [terminal] = [each for each in machine.terminals if "The logs of " in each.text]
    command = re.search("run: (kafka-leader-election .*--all-topic-partitions)", terminal.text)
    assert command is not None
    machine(command[1])
    assert described(machine, "only_copy") == [("0", {0}, {0})]
    machine("kafka-console-producer --broker-list localhost:9093 --topic only_copy", stdin="again\n")
    consume = "kafka-console-consumer --bootstrap-server localhost:9092 --topic only_copy --from-beginning"
    assert machine(f"{consume} --max-messages 1") == ["again"]


def test_07_a_group_of_two_shares_a_file(machine: Machine) -> None:
    machine(f"{TOPICS} --create --topic customers --partitions 3 --replication-factor 3")
    consume = "kafka-console-consumer --bootstrap-server localhost:9092 --topic customers --group customers"
    members = [machine.terminal(f"{consume} > {each}.txt") for each in ("first", "second")]
    describe = "kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group customers"

    def shares(lines: list[str]) -> bool:
        rows = [line.split() for line in lines[2:] if " customers " in line]
        return len(rows) == 3 and sorted(Counter(row[6] for row in rows).values()) == [1, 2]

    machine.repeat(describe, shares)
    machine(f"seq -f 'customer %.0f' {CUSTOMERS} > customers.csv")
    machine("kafka-console-producer --broker-list localhost:9092 --topic customers < customers.csv")
    machine.repeat("cat first.txt second.txt | wc -l", lambda lines: lines == [str(CUSTOMERS)])
    said = [re.findall(r"Processed a total of (\d+) messages", member.ctrl_c()) for member in members]
    assert sum(int(count) for [count] in said) == CUSTOMERS
    assert machine("sort first.txt second.txt | uniq -d") == []
