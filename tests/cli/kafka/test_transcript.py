"""Promise: the sessions that Kafka users know by heart work as typed, with the installed commands.

A shell runs each line. `localhost:9092` is replaced with the address of a broker that `kafka-server-start` runs.

Coverage of the session lines (files in this directory unless another is named):

zookeeper-server-start, -stop, four-letter words    test_zookeeper.py, test_transcript_cluster.py
kafka-server-start [-daemon], kafka-server-stop     here, test_server.py, test_transcript_cluster.py
keys of server.properties, unknown keys, bad values tests/cli/test_config.py, tests/metadata
three brokers from server0 to 2.properties          test_transcript_cluster.py, test_pages.py
lists with , ; and blanks, --broker-list            test_every_tool.py, test_transcript_cluster.py
--zookeeper of topics, configs, consumer, reassign  test_transcript_cluster.py; unreachable: test_every_tool.py
kafka-topics --create --list --describe --alter --delete --config
                                                    here, test_topics.py; replicated: test_transcript_cluster.py
kafka-configs --describe --add-config --delete-config
                                                    here, test_configs.py
kafka-console-producer, -consumer with keys, files, groups, codecs, Ctrl-C
                                                    here, test_console.py
--partition P --offset O                            here
2 + 1 partitions for two consumers, 12,434 customers here; a third takes over: test_transcript_cluster.py
kafka-consumer-groups --list --describe --reset-offsets in every way
                                                    here, test_consumer_groups.py
kafka-reassign-partitions, elections                here, test_reassign.py, test_transcript_cluster.py
kafka-dump-log                                      here, test_dump_log.py
kafka-log-dirs, -delete-records, -get-offsets, -broker-api-versions, -cluster
                                                    here, test_operations.py
perf tests, verifiable clients, end-to-end latency  here, test_measuring.py
zookeeper-shell                                     test_zookeeper.py, test_transcript_cluster.py
kafka-acls                                          test_acls.py
kafka-mirror-maker, connect-*                       test_every_tool.py: they say that they come later
equal to Kafka's own tools                          tests/peers: test_kafka_tools*.py, test_reassignment.py
wrong usage                                         test_wrong_usage.py, test_every_tool.py
the third spelling, `ottla …`                       tests/cli
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.testing.ports import ReservedPorts
from tests.shell import Shell, need_installed_commands, wait_until

COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
GROUP_COLUMNS = [
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"
]  # fmt: skip
CUSTOMERS = 12_434

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", params=["ottla", pytest.param("apache", marks=pytest.mark.peers)])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    need_installed_commands()
    directory = tmp_path_factory.mktemp("transcript")
    with (started_by_command if request.param == "ottla" else apache_kafka)(directory) as shell:
        yield shell


@contextlib.contextmanager
def started_by_command(directory: Path) -> Iterator[Shell]:
    reserved = ReservedPorts(1)
    [port] = reserved.numbers
    shell = Shell(directory, {"localhost:9092": f"127.0.0.1:{port}"})
    (directory / "server.properties").write_text(
        f"broker.id=0\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={directory / 'kafka-logs'}\n"
        "num.partitions=3\nlog.cleaner.backoff.ms=100\n"
    )
    output = directory / "server.out"
    server = shell.start("kafka-server-start server.properties", output)
    try:
        wait_until(
            lambda: "started (kafka.server.KafkaServer)" in output.read_text() or server.poll() is not None
        )
        assert server.poll() is None, output.with_suffix(".err").read_text()
        yield shell
        shell("kafka-server-stop.sh server.properties")
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def apache_kafka(directory: Path) -> Iterator[Shell]:
    """The same commands against Apache Kafka."""
    reserved = ReservedPorts(2)
    port, controller = reserved.numbers
    config = {
        "node.id": "0",
        "controller.quorum.voters": f"0@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "num.partitions": "3",
        "log.cleaner.backoff.ms": "100",
    }
    jvm = ("-Xms192m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ApacheKafka(port=port, data=directory, config=config, jvm=jvm) as kafka:
        yield Shell(directory, {"localhost:9092": kafka.bootstrap_servers, "kafka-logs": "data"})


# -- topics -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["kafka-topics", "kafka-topics.sh"])
def test_topics(shell, tool):
    topics = f"{tool} --bootstrap-server localhost:9092"
    assert shell(f"{topics} --topic first_topic --create --partitions 3 --replication-factor 1") == [
        COLLISION,
        "Created topic first_topic.",
    ]
    assert "first_topic" in shell(f"{topics} --list")
    heading, *partitions = shell(f"{topics} --topic first_topic --describe")
    assert re.fullmatch(
        r"Topic: first_topic\tTopicId: [\w-]{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: .*",
        heading,
    )
    assert partitions == [
        f"\tTopic: first_topic\tPartition: {number}\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: "
        for number in range(3)
    ]
    [refused] = shell(f"{topics} --topic first_topic --create --replication-factor 2", code=1)[1:]
    assert refused.startswith("Error while executing topic command : ")
    shell(f"{topics} --alter --topic first_topic --partitions 4")
    assert "\tPartitionCount: 4\t" in shell(f"{topics} --describe --topic first_topic")[0]
    [refused] = shell(f"{topics} --alter --topic first_topic --partitions 2", code=1)
    assert "currently has 4 partition" in refused
    assert shell(f"{topics} --delete --topic first_topic") == []
    assert "first_topic" not in shell(f"{topics} --list")
    [missing] = shell(f"{topics} --describe --topic first_topic", code=1)
    assert missing == "Error while executing topic command : Topic 'first_topic' does not exist as expected"


# -- producing and consuming --------------------------------------------------------------------------------


def test_lines_with_and_without_keys(shell):
    produce = "kafka-console-producer --broker-list localhost:9092"
    consume = "kafka-console-consumer.sh --bootstrap-server localhost:9092"
    shell(f"{produce} --topic new_topic --producer-property acks=all", stdin="hello\nworld\n")
    # Kafka prints the second line since it dropped ZooKeeper.
    assert re.search(r"\{new_topic=(LEADER_NOT_AVAILABLE|UNKNOWN_TOPIC_OR_PARTITION)\}", shell.said)
    described = shell("kafka-topics.sh --bootstrap-server localhost:9092 --topic new_topic --describe")
    assert "PartitionCount: 3" in described[0]
    assert sorted(shell(f"{consume} --topic new_topic --from-beginning --max-messages 2")) == [
        "hello",
        "world",
    ]
    assert shell.said == "Processed a total of 2 messages\n"
    keys = "--property parse.key=true --property key.separator=,"
    shell(f"{produce} --topic with_keys {keys} --compression-codec lz4", stdin="a,1\nb,2\na,3\n")
    printing = "--property print.key=true --property key.separator=,"
    read = shell(f"{consume} --topic with_keys --from-beginning {printing} --max-messages 3")
    assert sorted(read) == ["a,1", "a,3", "b,2"]
    assert [line for line in read if line[0] == "a"] == ["a,1", "a,3"]


def test_a_group_with_its_lag_and_its_offsets_moved(shell):
    produce = "kafka-console-producer --broker-list localhost:9092 --topic lagging"
    consume = "kafka-console-consumer --bootstrap-server localhost:9092 --topic lagging"
    groups = "kafka-consumer-groups --bootstrap-server localhost:9092"
    shell("kafka-topics --bootstrap-server localhost:9092 --create --topic lagging --partitions 1")
    shell(produce, stdin="".join(f"{number}\n" for number in range(5)))
    (shell.directory / "group.properties").write_text("group.id=app\n")
    assert shell(f"{consume} --consumer.config group.properties --from-beginning --max-messages 5") == list(
        "01234"
    )
    shell(produce, stdin="5\n6\n")
    assert "app" in shell(f"{groups} --list")
    blank, columns, row = shell(f"{groups} --describe --group app")
    assert (blank, columns.split()) == ("", GROUP_COLUMNS)
    assert row.split() == ["app", "lagging", "0", "5", "7", "2", "-", "-", "-"]
    assert shell.said == "\nConsumer group 'app' has no active members.\n"

    def reset(how: str) -> str:
        blank, columns, row = shell(
            f"kafka-consumer-groups.sh --bootstrap-server localhost:9092 --group app --reset-offsets {how} "
            "--topic lagging"
        )
        assert (blank, columns.split()) == ("", ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"])
        assert row.split()[:3] == ["app", "lagging", "0"]
        return row.split()[3]

    assert reset("--to-earliest --execute") == "0"
    assert shell(f"{consume} --group app --max-messages 7") == list("0123456")
    # Two past the end: clamped, with a warning.
    assert reset("--shift-by 2 --execute") == "7"
    assert (
        "WARN New offset (9) is higher than latest offset for topic partition lagging-0. Value will be set to 7 "
        in shell.said
    )
    assert reset("--shift-by -2 --execute") == "5"
    assert shell.said == ""
    assert shell(f"{consume} --group app --max-messages 2") == ["5", "6"]
    assert reset("--to-offset 1 --dry-run") == "1"
    assert shell(f"{groups} --describe --group app")[2].split()[3:6] == ["7", "7", "0"]


def test_three_partitions_are_shared_by_two_consumers_and_no_customer_is_lost(shell, tmp_path):
    customers = [f"{number},customer {number},{number * 7919 % 10_000}" for number in range(CUSTOMERS)]
    (shell.directory / "customers.csv").write_text("".join(f"{line}\n" for line in customers))
    shell("kafka-topics --bootstrap-server localhost:9092 --create --topic customers --partitions 3")
    consume = (
        "kafka-console-consumer --bootstrap-server localhost:9092 --topic customers --group crm --from-beginning "
        "--property print.partition=true --property print.key=true --property key.separator=,"
    )
    outputs = [tmp_path / "one.out", tmp_path / "two.out"]
    consumers = [shell.start(consume, output) for output in outputs]
    try:
        members = "kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group crm --members"

        def shares() -> list[str]:
            listed = shell(f"{members} || true")[2:]
            return sorted(line.split()[4] for line in listed)

        wait_until(lambda: shares() == ["1", "2"])
        keys = "--property parse.key=true --property key.separator=,"
        shell(f"kafka-console-producer --broker-list localhost:9092 --topic customers {keys} < customers.csv")

        def lines(output: Path) -> list[str]:
            return output.read_text().splitlines()

        wait_until(lambda: sum(len(lines(output)) for output in outputs) >= CUSTOMERS)
        for consumer in consumers:
            consumer.send_signal(signal.SIGINT)
        for consumer in consumers:
            consumer.wait(30)
    finally:
        for consumer in consumers:
            consumer.kill()
            consumer.wait()
    read = [
        [re.fullmatch(r"Partition:(\d),(.*)", line).groups() for line in lines(output)] for output in outputs
    ]
    partitions = [{partition for partition, _ in each} for each in read]
    assert sorted(map(len, partitions)) == [1, 2]
    assert set.union(*partitions) == {"0", "1", "2"}
    assert Counter(line for each in read for _, line in each) == Counter(customers)
    for output, each in zip(outputs, read, strict=True):
        said = output.with_suffix(".err").read_text().splitlines()
        assert said[-1] == f"Processed a total of {len(each)} messages"
    rows = [
        line.split()
        for line in shell("kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group crm")[
            2:
        ]
    ]
    assert [row[5] for row in rows] == ["0", "0", "0"]
    assert sum(int(row[3]) for row in rows) == CUSTOMERS


# -- settings and compaction --------------------------------------------------------------------------------


def test_settings_are_added_described_and_deleted(shell):
    shell("kafka-topics --bootstrap-server localhost:9092 --create --topic configured-topic --partitions 3")
    configs = (
        "kafka-configs --bootstrap-server localhost:9092 --entity-type topics --entity-name configured-topic"
    )
    none = ["Dynamic configs for topic configured-topic are:"]
    assert shell(f"{configs} --describe") == none
    assert shell(f"{configs} --add-config min.insync.replicas=2 --alter") == [
        "Completed updating config for topic configured-topic."
    ]
    [heading, setting] = shell(f"{configs} --describe".replace("kafka-configs", "kafka-configs.sh"))
    assert heading == none[0]
    # Kafka always has a default for all brokers.
    assert setting.replace("DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1, ", "") == (
        "  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=2, "
        "DEFAULT_CONFIG:min.insync.replicas=1}"
    )
    described = shell("kafka-topics --bootstrap-server localhost:9092 --describe --topic configured-topic")
    assert described[0].endswith("\tConfigs: min.insync.replicas=2")
    shell(f"{configs} --delete-config min.insync.replicas --alter")
    assert shell(f"{configs} --describe") == none


def test_users_have_credentials(shell):
    configs = "kafka-configs --bootstrap-server localhost:9092 --entity-type users --entity-name alice"
    added = f"{configs} --alter --add-config 'SCRAM-SHA-256=[iterations=8192,password=a,secret]'"
    assert shell(added) == ["Completed updating config for user alice."]
    assert shell(f"{configs} --describe") == [
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192"
    ]
    shell(f"{configs} --alter --delete-config SCRAM-SHA-256")
    assert shell(f"{configs} --describe") == []


def test_a_compacted_topic_keeps_the_latest_salary(shell):
    shell(
        "kafka-topics --bootstrap-server localhost:9092 --create --topic employee-salary --partitions 1 "
        "--replication-factor 1 --config cleanup.policy=compact --config min.cleanable.dirty.ratio=0.001 "
        "--config segment.ms=5000"
    )
    produce = (
        "kafka-console-producer --broker-list localhost:9092 --topic employee-salary --property parse.key=true "
        "--property key.separator=,"
    )
    shell(produce, stdin="Patrick,10000\nLucy,20000\nBob,20000\nPatrick,25000\nLucy,30000\nPatrick,30000\n")

    def compacted() -> bool:
        """Write a record of another employee, which closes the segment once it is five seconds old."""
        shell(produce, stdin="Stephane,0\n")
        read = shell(
            "kafka-console-consumer --bootstrap-server localhost:9092 --topic employee-salary --from-beginning "
            "--property print.key=true --property key.separator=, --timeout-ms 500"
        )
        kept = [line for line in read if not line.startswith("Stephane,")]
        return kept == ["Bob,20000", "Lucy,30000", "Patrick,30000"]

    wait_until(compacted)


# -- operations ---------------------------------------------------------------------------------------------


def test_offsets_leaders_and_reassignment(shell):
    shell("kafka-topics --bootstrap-server localhost:9092 --create --topic mytopic --partitions 2")
    shell("kafka-console-producer --broker-list localhost:9092 --topic mytopic", stdin="x\n")
    offsets = shell("kafka-get-offsets --bootstrap-server localhost:9092 --topic mytopic")
    assert sorted(offsets) in (["mytopic:0:0", "mytopic:1:1"], ["mytopic:0:1", "mytopic:1:0"])
    (shell.directory / "move.json").write_text(
        '{"partitions":[{"topic":"mytopic","partition":0,"replicas":[0]}],"version":1}'
    )
    reassign = (
        "kafka-reassign-partitions --bootstrap-server localhost:9092 --reassignment-json-file move.json"
    )
    assert shell(f"{reassign} --execute")[-1] == "Successfully started partition reassignment for mytopic-0"
    assert shell(f"{reassign} --verify")[1] == "Reassignment of partition mytopic-0 is completed."
    (shell.directory / "partitions.json").write_text('{"partitions":[{"topic":"mytopic","partition":0}]}')
    elected = "Valid replica already elected for partitions mytopic-0"
    at = "--bootstrap-server localhost:9092 --path-to-json-file partitions.json"
    assert shell(f"kafka-leader-election {at} --election-type preferred") == [elected]
    assert shell(f"kafka-preferred-replica-election.sh {at}") == [elected]
    segment = "kafka-logs/mytopic-0/00000000000000000000.log"
    dumped = shell(f"kafka-dump-log --files {segment} --print-data-log --deep-iteration")
    assert dumped[:2] == [f"Dumping {shell.line(segment)}", "Log starting offset: 0"]


def test_the_other_operations(shell):
    at = "--bootstrap-server localhost:9092"
    shell(f"kafka-topics {at} --create --topic operated --partitions 1")
    sent = shell(
        f"kafka-producer-perf-test --topic operated --num-records 100 --record-size 10 --throughput -1 {at}"
    )
    assert re.match(r"100 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), ", sent[-1])
    columns, read = shell(f"kafka-consumer-perf-test {at} --topic operated --messages 100")
    assert columns.startswith(
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    )
    assert int(read.split(", ")[4]) >= 100
    verified = shell(f"kafka-verifiable-producer.sh {at} --topic operated --max-messages 3")
    assert '"name":"tool_data"' in verified[-1]
    (shell.directory / "offsets.json").write_text(
        '{"partitions":[{"topic":"operated","partition":0,"offset":101}],"version":1}'
    )
    deleted = shell(f"kafka-delete-records {at} --offset-json-file offsets.json")
    assert deleted[-1] == "partition: operated-0\tlow_watermark: 101"
    assert shell(f"kafka-console-consumer {at} --topic operated --partition 0 --offset 101 --max-messages 2") == [
        "1", "2",
    ]  # fmt: skip
    assert shell(f"kafka-log-dirs {at} --describe --topic-list operated")[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 0",
    ]
    [heading, *apis] = shell(f"kafka-broker-api-versions {at}")
    assert heading == shell.line("localhost:9092 (id: 0 rack: null isFenced: false) -> (")
    assert any(line.startswith("\tProduce(0): 0 to ") for line in apis)
    assert shell(f"kafka-cluster cluster-id {at}")[0].startswith("Cluster ID: ")
