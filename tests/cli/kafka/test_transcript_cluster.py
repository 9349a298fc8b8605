"""Promise: the commands that Kafka users type run, fill, move and kill three brokers on one machine.

ZooKeeper and the brokers start from the corresponding files in config/.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.jvm.zookeeper import four_letter_word
from tests.shell import Shell, laptop, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

AT = "--bootstrap-server localhost:9092"
EVERY = "'localhost:9092; localhost:9093;localhost:9094'"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with laptop(tmp_path_factory.mktemp("cluster")) as shell:
        shell("zookeeper-server-start -daemon config/zookeeper.properties")
        for broker in range(3):
            start(shell, broker)
        yield shell
        for broker in range(3):
            shell(f"kafka-server-stop.sh config/server{broker}.properties")
        for broker in range(3):
            stopped = f"kafka-logs-{broker}/.kafka_cleanshutdown"
            wait_until((shell.directory / stopped).exists)
        shell("zookeeper-server-stop.sh config/zookeeper.properties")


def start(shell: Shell, broker: int) -> None:
    shell(f"kafka-server-start -daemon config/server{broker}.properties")


def kill(shell: Shell, broker: int) -> None:
    shell(f"kill -9 $(pgrep -f config/server{broker}.properties)")


def zookeeper(shell: Shell, command: str) -> str:
    """Return the output of `zookeeper-shell` after its greeting."""
    *greeting, found = shell(f"zookeeper-shell localhost:2181 {command}")
    assert greeting == [
        shell.line("Connecting to localhost:2181"),
        "",
        "WATCHER::",
        "",
        "WatchedEvent state:SyncConnected type:None path:null",
    ]
    return found


def described(shell: Shell, topic: str) -> list[tuple[int, list[int], set[int]]]:
    """Return the leader, replicas and ISR of each partition."""
    heading, *lines = shell(f"kafka-topics {AT} --describe --topic {topic}")
    assert heading.startswith(f"Topic: {topic}\tTopicId: ")
    partitions = []
    for number, line in enumerate(lines):
        found = re.fullmatch(
            rf"\tTopic: {topic}\tPartition: {number}\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)"
            r"\tElr: \tLastKnownElr: ",
            line,
        )
        assert found, line
        replicas, isr = ([int(each) for each in found[group].split(",")] for group in (2, 3))
        partitions.append((-1 if found[1] == "none" else int(found[1]), replicas, set(isr)))
    return partitions


def json_file(shell: Shell, name: str, document: object) -> str:
    (shell.directory / name).write_text(json.dumps(document))
    return name


def test_zookeeper_knows_the_brokers_and_the_controller(shell):
    assert zookeeper(shell, "ls /brokers/ids") == "[0, 1, 2]"
    controller = json.loads(zookeeper(shell, "get /controller"))
    assert controller["brokerid"] in (0, 1, 2)
    endpoints = json.loads(zookeeper(shell, "get /brokers/ids/1"))["endpoints"]
    assert endpoints[0].endswith(shell.line(":9093"))
    port = int(shell.line("2181"))
    assert four_letter_word("127.0.0.1", port, "ruok") == "imok"
    for word, answer in (
        ("srvr", "Mode: standalone"),
        ("mntr", "zk_znode_count\t"),
        ("conf", f"clientPort={port}"),
        ("cons", "/127.0.0.1:"),
    ):
        assert answer in str(four_letter_word("127.0.0.1", port, word))


def test_topics_are_spread_over_the_brokers(shell):
    created = shell(
        "kafka-topics --zookeeper 0.0.0.0:2181 --topic first_topic --create --partitions 3 --replication-factor 1"
    )
    assert created[-1] == "Created topic first_topic."
    assert [replicas for _, replicas, _ in described(shell, "first_topic")] in (
        [[0], [1], [2]], [[1], [2], [0]], [[2], [0], [1]],
    )  # fmt: skip
    shell(f"kafka-topics {AT} --topic spread --create --partitions 3 --replication-factor 3")
    partitions = described(shell, "spread")
    assert sorted(leader for leader, _, _ in partitions) == [0, 1, 2]
    for leader, replicas, isr in partitions:
        assert replicas[0] == leader
        assert set(replicas) == isr == {0, 1, 2}
    [refused] = shell(f"kafka-topics {AT} --topic many --create --replication-factor 4", code=1)
    assert refused.startswith("Error while executing topic command : ")
    assert shell("kafka-topics --zookeeper localhost:2181 --list") == shell(
        f"kafka-topics --bootstrap-server {EVERY} --list"
    )
    shell("kafka-topics.sh --zookeeper localhost:2181/ --delete --topic first_topic")
    wait_until(lambda: "first_topic" not in shell(f"kafka-topics {AT} --list"))


def test_settings_are_the_same_at_every_broker(shell):
    """Uses the older command line, with ZooKeeper."""
    shell(f"kafka-topics {AT} --topic configured --create --partitions 1 --replication-factor 2")
    configs = "kafka-configs --zookeeper localhost:2181 --entity-type topics --entity-name configured"
    assert shell(f"{configs} --alter --add-config min.insync.replicas=2") == [
        "Completed updating config for topic configured."
    ]
    for port in (9092, 9093, 9094):
        at = f"--bootstrap-server localhost:{port}"
        wait_until(
            lambda at=at: (
                "min.insync.replicas=2" in shell(f"kafka-topics {at} --describe --topic configured")[0]
            )
        )
    shell(f"{configs} --alter --delete-config min.insync.replicas")
    assert shell(f"{configs} --describe") == ["Dynamic configs for topic configured are:"]


def test_a_factor_is_raised_from_one_to_three(shell):
    shell(f"kafka-topics {AT} --topic mytopic --create --replica-assignment 0,1")
    shell(f"kafka-console-producer --broker-list {EVERY} --topic mytopic", stdin="one\ntwo\nthree\n")
    topics = json_file(shell, "topics.json", {"topics": [{"topic": "mytopic"}], "version": 1})
    generated = shell(
        f"kafka-reassign-partitions --zookeeper localhost:2181 --generate --topics-to-move-json-file {topics} "
        "--broker-list 1,2"
    )
    assert generated[0] == "Current partition replica assignment"
    assert generated[3] == "Proposed partition reassignment configuration"
    current, proposed = (
        [each["replicas"] for each in json.loads(generated[line])["partitions"]] for line in (1, 4)
    )
    assert current == [[0], [1]]
    assert sorted(proposed) == [[1], [2]]
    (shell.directory / "move.json").write_text(
        '{"partitions":[{"topic":"mytopic","partition":0,"replicas":[1,2,0]},'
        '{"topic":"mytopic","partition":1,"replicas":[2,0,1]}],"version":1}'
    )
    reassign = f"kafka-reassign-partitions {AT} --reassignment-json-file move.json"
    executed = shell(f"{reassign} --execute --throttle 10000000")
    assert executed[0] == "Current partition replica assignment"
    assert json.loads(executed[2])["partitions"][0]["replicas"] == [0]
    assert executed[4:] == [
        "Save this to use as the --reassignment-json-file option during rollback",
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed.",
        "The inter-broker throttle limit was set to 10000000 B/s",
        "Successfully started partition reassignments for mytopic-0,mytopic-1",
    ]
    verified: list[str] = []

    def done() -> bool:
        verified[:] = shell(f"{reassign} --verify")
        return "still in progress" not in "".join(verified)

    wait_until(done)
    assert verified == [
        "Status of partition reassignment:",
        "Reassignment of partition mytopic-0 is completed.",
        "Reassignment of partition mytopic-1 is completed.",
        "",
        "Clearing broker-level throttles on brokers 0,1,2",
        "Clearing topic-level throttles on topic mytopic",
    ]
    assert shell(f"kafka-reassign-partitions {AT} --list") == ["No partition reassignments found."]
    for _, replicas, isr in described(shell, "mytopic"):
        assert set(replicas) == isr == {0, 1, 2}
    assert [replicas[0] for _, replicas, _ in described(shell, "mytopic")] == [1, 2]
    elected = shell("kafka-preferred-replica-election --zookeeper localhost:2181")
    assert elected[-1].startswith(("Successfully completed leader election (PREFERRED) for", "Valid replica"))
    assert [leader for leader, _, _ in described(shell, "mytopic")] == [1, 2]
    consumed = shell(
        "kafka-console-consumer --zookeeper localhost:2181 --topic mytopic --from-beginning --max-messages 3"
    )
    assert sorted(consumed) == ["one", "three", "two"]


def test_a_killed_broker_loses_nothing_and_comes_back(shell):
    shell(f"kafka-topics {AT} --topic surviving --create --replica-assignment 1:2:0,2:1:0")
    produce = f"kafka-console-producer --broker-list {EVERY} --topic surviving --producer-property acks=all"
    consume = f"kafka-console-consumer --bootstrap-server {EVERY} --topic surviving --group survivors"
    shell(produce, stdin="".join(f"{number}\n" for number in range(100)))
    first = shell(f"{consume} --from-beginning --max-messages 60")
    kill(shell, 1)
    wait_until(
        lambda: (
            [(leader, isr) for leader, _, isr in described(shell, "surviving")] == [(2, {0, 2}), (2, {0, 2})]
        )
    )
    under = shell(f"kafka-topics {AT} --describe --under-replicated-partitions --topic surviving")
    assert [line.split("\t")[2] for line in under] == ["Partition: 0", "Partition: 1"]
    shell(produce, stdin="".join(f"{number}\n" for number in range(100, 120)))
    rest = shell(f"{consume} --max-messages 60")
    assert sorted(map(int, first + rest)) == list(range(120))
    rows = shell(f"kafka-consumer-groups {AT} --describe --group survivors")[2:]
    assert {row.split()[5] for row in rows} == {"0"}
    # The broker's znode disappears when its session ends.
    wait_until(lambda: zookeeper(shell, "ls /brokers/ids") == "[0, 2]")
    start(shell, 1)
    wait_until(lambda: all(isr == {0, 1, 2} for _, _, isr in described(shell, "surviving")))
    assert [leader for leader, _, _ in described(shell, "surviving")] == [2, 2]
    partition = json_file(shell, "partitions.json", {"partitions": [{"topic": "surviving", "partition": 0}]})
    elected = shell(f"kafka-leader-election {AT} --election-type preferred --path-to-json-file {partition}")
    assert elected == ["Successfully completed leader election (PREFERRED) for partitions surviving-0"]
    assert [leader for leader, _, _ in described(shell, "surviving")] == [1, 2]


def test_another_broker_becomes_the_controller(shell):
    def controller() -> int:
        return int(json.loads(zookeeper(shell, "get /controller"))["brokerid"])

    former = controller()
    shell(f"kafka-server-stop config/server{former}.properties")
    wait_until(lambda: zookeeper(shell, "ls /brokers/ids") == str(sorted({0, 1, 2} - {former})))
    wait_until(lambda: controller() != former)
    start(shell, former)
    assert zookeeper(shell, "ls /brokers/ids") == "[0, 1, 2]"


def test_a_third_consumer_takes_over_when_one_dies(shell, tmp_path):
    shell(f"kafka-topics {AT} --topic shared --create --partitions 3 --replication-factor 2")
    consume = f"kafka-console-consumer --bootstrap-server {EVERY} --topic shared --group takers"
    members = f"kafka-consumer-groups {AT} --describe --group takers --members"
    # Sessions are short, so that the cluster soon notices the killed broker.
    options = "--consumer-property session.timeout.ms=6000"
    outputs: list[Path] = [tmp_path / f"{number}.out" for number in range(3)]

    def shares() -> list[str]:
        return sorted(line.split()[4] for line in shell(f"{members} || true")[2:])

    consumers = []
    try:
        for output in outputs[:2]:
            consumers.append(shell.start(f"{consume} {options}", output))
        wait_until(lambda: shares() == ["1", "2"])
        consumers.append(shell.start(f"{consume} {options}", outputs[2]))
        wait_until(lambda: shares() == ["1", "1", "1"])
        consumers[0].kill()
        wait_until(lambda: shares() == ["1", "2"])
        keys = "--property parse.key=true --property key.separator=,"
        lines = [f"{number},line {number}" for number in range(30)]
        shell(f"kafka-console-producer --broker-list {EVERY} --topic shared {keys}", stdin="\n".join(lines))
        read = [f"line {number}" for number in range(30)]
        wait_until(
            lambda: (
                sorted(line for output in outputs[1:] for line in output.read_text().splitlines())
                == sorted(read)
            )
        )
        for consumer, output in zip(consumers[1:], outputs[1:], strict=True):
            consumer.send_signal(signal.SIGINT)
            consumer.wait(30)
            said = output.with_suffix(".err").read_text().splitlines()[-1]
            assert said == f"Processed a total of {len(output.read_text().splitlines())} messages"
    finally:
        for consumer in consumers:
            consumer.kill()
            consumer.wait()
