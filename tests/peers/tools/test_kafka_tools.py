"""Promise: our tools print the same as Kafka's own tools, and Kafka's own tools work against Ottla.

Each case runs both against the same broker. Order is compared if Kafka's tool defines one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ShareConsumer

from bench.peers.apache_kafka import Unavailable, kafka_jars, run_tool
from ottla.log.producer_state import ProducerEntry, encode_snapshot
from ottla.testing import Broker
from tests.peers.tools.kafka_tools import CLASSES, command, ours, theirs, without_logging

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def apache_kafka_is_there() -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config={"num.partitions": "3", "log.index.interval.bytes": "100"}) as broker:
        broker.create_topic("plain", partitions=3)
        settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "5000"}
        broker.create_topic("compacted.topic", partitions=2, config=settings)
        for number in range(20):
            broker.produce(
                "plain", b"value %d" % number, key=b"k", partition=number % 2, timestamp=1000 + number
            )
        ours(broker, "consumer-groups", "--group", "g", "--topic", "plain", "--reset-offsets", "--to-offset", "4",
             "--execute")  # fmt: skip
        yield broker


@pytest.fixture(scope="module")
def live_group(broker: Broker) -> Iterator[str]:
    """A group with one member."""
    process = subprocess.Popen(
        command(broker, "console-consumer", "--topic", "plain", "--group", "live"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while (
            "Stable" not in ours(broker, "consumer-groups", "--describe", "--group", "live", "--state").stdout
        ):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield "live"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


SAME = [
    ("topics", "--list"),
    ("topics", "--describe"),
    ("topics", "--describe", "--topic", "compacted.topic"),
    ("topics", "--describe", "--topics-with-overrides"),
    ("topics", "--describe", "--under-replicated-partitions"),
    ("topics", "--describe", "--at-min-isr-partitions", "--exclude-internal"),
    ("topics", "--describe", "--topic", "nowhere"),
    ("topics", "--describe", "--unavailable-partitions"),
    ("topics", "--list", "--exclude-internal"),
    ("topics", "--delete", "--topic", "nowhere"),
    ("topics", "--create", "--topic", "two", "--replication-factor", "2"),
    ("topics", "--create", "--topic", "none", "--partitions", "0"),
    ("topics", "--create", "--topic", "plain"),
    ("topics", "--create", "--topic", "plain", "--if-not-exists"),
    ("topics", "--alter", "--topic", "plain", "--partitions", "2"),
    ("configs", "--entity-type", "topics", "--entity-name", "compacted.topic", "--describe"),
    ("configs", "--topic", "compacted.topic", "--describe", "--all"),
    ("configs", "--entity-type", "brokers", "--describe"),
    ("configs", "--entity-type", "brokers", "--entity-name", "0", "--describe", "--all"),
    ("configs", "--entity-type", "topics", "--entity-name", "nowhere", "--describe"),
    ("configs", "--topic", "compacted.topic", "--alter", "--add-config", "retention.ms=1000"),
    ("configs", "--topic", "compacted.topic", "--alter", "--delete-config", "retention.ms"),
    ("configs", "--topic", "plain", "--alter", "--add-config", "nope=1"),
    ("configs", "--topic", "plain", "--alter", "--add-config", "retention.ms=x"),
    ("configs", "--topic", "plain", "--alter", "--delete-config", "retention.bytes"),
    ("configs", "--topic", "nowhere", "--alter", "--add-config", "retention.ms=1"),
    ("configs", "--entity-type", "brokers", "--entity-name", "0", "--alter", "--add-config", "log.dirs=/x"),
    ("configs", "--entity-type", "groups", "--entity-name", "g", "--describe"),
    ("configs", "--entity-type", "topics", "--alter", "--add-config", "retention.ms=1"),
    ("configs", "--entity-type", "clients", "--entity-name", "c", "--alter", "--add-config",
     "producer_byte_rate=25000000"),
    ("configs", "--entity-type", "clients", "--describe"),
    ("configs", "--entity-type", "clients", "--entity-name", "c", "--alter", "--add-config", "nope=1"),
    ("configs", "--entity-type", "clients", "--entity-name", "c", "--alter", "--delete-config", "nope"),
    ("configs", "--entity-type", "clients", "--entity-name", "c", "--alter", "--add-config",
     "producer_byte_rate=much"),
    ("configs", "--entity-type", "users", "--entity-name", "ann", "--alter", "--add-config",
     "consumer_byte_rate=1000"),
    ("configs", "--entity-type", "users", "--entity-name", "ann", "--describe"),
    ("configs", "--entity-type", "users", "--describe"),
    ("configs", "--user", "ann", "--client-defaults", "--alter", "--add-config", "request_percentage=50"),
    ("configs", "--user", "ann", "--client-defaults", "--describe"),
    ("configs", "--entity-type", "users", "--entity-name", "ann", "--alter", "--add-config",
     "SCRAM-SHA-256=[password=x],request_percentage=1"),
    ("configs", "--user-defaults", "--alter", "--add-config", "SCRAM-SHA-256=[password=x]"),
    ("configs", "--entity-type", "users", "--entity-name", "ann", "--alter", "--add-config",
     "SCRAM-SHA-512=[iterations=7,password=x]"),
    ("configs", "--entity-type", "ips", "--entity-name", "127.0.0.9", "--alter", "--add-config",
     "connection_creation_rate=10"),
    ("configs", "--entity-type", "ips", "--describe"),
    ("configs", "--entity-type", "ips", "--entity-name", "127.0.0.9", "--alter", "--add-config", "nope=1"),
    ("configs", "--entity-type", "ips", "--entity-name", "no such host", "--alter", "--add-config",
     "connection_creation_rate=10"),
    ("configs", "--entity-type", "client-metrics", "--describe"),
    ("configs", "--entity-type", "client-metrics", "--entity-name", "m", "--describe"),
    ("configs", "--entity-type", "client-metrics", "--entity-name", "m", "--alter", "--add-config",
     "interval.ms=500,metrics=[a.,b.],match=[client_id=app.*]"),
    ("configs", "--entity-type", "client-metrics", "--entity-name", "m", "--describe"),
    ("configs", "--entity-type", "client-metrics", "--describe"),
    ("configs", "--entity-type", "client-metrics", "--entity-name", "m", "--alter", "--add-config", "interval.ms=1"),
    ("configs", "--entity-type", "client-metrics", "--entity-name", "m", "--alter", "--delete-config",
     "interval.ms,metrics,match"),
    ("configs", "--entity-type", "broker-loggers", "--entity-name", "0", "--alter", "--add-config",
     "ottla.broker.apis=WARN"),
    ("configs", "--entity-type", "broker-loggers", "--entity-name", "0", "--alter", "--add-config",
     "ottla.broker.apis=LOUD"),
    ("configs", "--entity-type", "broker-loggers", "--entity-name", "0", "--alter", "--delete-config",
     "ottla.broker.apis"),
    ("configs", "--entity-type", "broker-loggers", "--entity-name", "0", "--describe"),
    ("configs", "--entity-type", "broker-loggers", "--describe"),
    ("configs", "--entity-type", "broker-loggers", "--entity-name", "0", "--alter", "--add-config", "nope=INFO"),
    ("configs", "--entity-type", "groups", "--entity-name", "set", "--alter", "--add-config",
     "share.record.lock.duration.ms=20000"),
    ("configs", "--entity-type", "groups", "--entity-name", "set", "--alter", "--add-config",
     "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"),
    ("configs", "--entity-type", "groups", "--entity-name", "set", "--alter", "--add-config",
     "consumer.session.timeout.ms=1"),
    ("configs", "--entity-type", "groups", "--entity-name", "set", "--describe"),
    ("configs", "--entity-type", "groups", "--describe"),
    ("configs", "--entity-type", "brokers", "--entity-name", "x", "--alter", "--add-config", "num.partitions=1"),
    ("configs", "--entity-type", "brokers", "--entity-default", "--alter", "--add-config",
     "log.retention.ms=604800000"),
    ("configs", "--entity-type", "brokers", "--entity-default", "--describe"),
    ("configs", "--entity-type", "brokers", "--entity-default", "--alter", "--delete-config", "log.retention.ms"),
    ("consumer-groups", "--list"),
    ("consumer-groups", "--list", "--state"),
    ("consumer-groups", "--list", "--type"),
    ("consumer-groups", "--list", "--state", "Empty"),
    ("consumer-groups", "--describe", "--all-groups"),
    ("consumer-groups", "--describe", "--all-groups", "--state"),
    ("consumer-groups", "--describe", "--group", "nobody"),
    ("consumer-groups", "--describe", "--group", "nobody", "--members"),
    ("consumer-groups", "--delete", "--group", "nobody"),
    ("consumer-groups", "--delete-offsets", "--group", "nobody", "--topic", "plain"),
    ("consumer-groups", "--reset-offsets", "--group", "nobody", "--topic", "plain", "--to-earliest", "--dry-run"),
    ("consumer-groups", "--reset-offsets", "--group", "g", "--to-earliest", "--dry-run"),
    ("consumer-groups", "--describe"),
    ("consumer-groups", "--describe", "--group", "g"),
    ("consumer-groups", "--describe", "--group", "g", "--verbose"),
    ("consumer-groups", "--describe", "--group", "g", "--state"),
    ("consumer-groups", "--describe", "--group", "g", "--members"),
    ("consumer-groups", "--reset-offsets", "--group", "g", "--topic", "plain", "--shift-by", "200", "--dry-run"),
    ("consumer-groups", "--reset-offsets", "--group", "g", "--all-topics", "--to-earliest", "--dry-run", "--export"),
    ("consumer-groups", "--reset-offsets", "--group", "g", "--topic", "plain:0,1", "--by-duration", "PT1H",
     "--dry-run"),
    ("get-offsets", "--topic", "plain"),
    ("get-offsets", "--topic", "plain", "--time", "-3"),
    ("get-offsets", "--topic", "plain", "--time", "1010"),
    ("get-offsets", "--topic-partitions", "plain:0,compacted.*:1-"),
    ("get-offsets", "--topic", "plain", "--time", "earliest"),
    ("get-offsets", "--topic", "plain", "--time", "nonsense"),
    ("get-offsets", "--topic", "plain", "--partitions", "1,2"),
    ("get-offsets", "--topic", "nowhere"),
    ("log-dirs", "--describe", "--broker-list", "9"),
    ("log-dirs", "--describe", "--topic-list", "nowhere"),
    ("broker-api-versions",),
    ("cluster", "cluster-id"),
    ("cluster", "list-endpoints"),
    ("leader-election", "--election-type", "preferred", "--topic", "plain", "--partition", "0"),
    ("leader-election", "--election-type", "preferred", "--all-topic-partitions"),
    ("leader-election", "--election-type", "unclean", "--topic", "plain", "--partition", "0"),
    ("leader-election", "--election-type", "preferred", "--topic", "plain", "--partition", "77"),
    ("leader-election", "--election-type", "nonsense", "--all-topic-partitions"),
    ("reassign-partitions", "--list"),
]  # fmt: skip


# Kafka's tools keep these in hash maps.
UNORDERED = [("topics", "--describe"), ("consumer-groups", "--list"), ("consumer-groups", "--reset-offsets")]


@pytest.mark.parametrize("args", SAME, ids=" ".join)
def test_both_tools_say_the_same(broker, args):
    kafka, ottla = theirs(broker, *args), ours(broker, *args)
    expected, said = without_logging(kafka.stdout), without_logging(ottla.stdout)
    if args[:2] in UNORDERED:
        expected, said = sorted(expected), sorted(said)
    assert said == expected
    assert ottla.returncode == exit_code(args, kafka)


def exit_code(args, kafka):
    """Kafka's tools for groups print an error and end with 0. Ours end with 1."""
    said_error = args[0].endswith("-groups") and "\nError: " in kafka.stdout
    return 1 if said_error else kafka.returncode


@pytest.mark.parametrize("args", [(), ("--members",), ("--members", "--verbose"), ("--state",)], ids=str)
def test_both_see_the_same_members(broker, live_group, args):
    described = ("consumer-groups", "--describe", "--group", live_group, *args)
    assert without_logging(ours(broker, *described).stdout) == without_logging(
        theirs(broker, *described).stdout
    )


@pytest.mark.parametrize(
    "action",
    [
        ("--delete",),
        ("--delete-offsets", "--topic", "plain"),
        ("--reset-offsets", "--topic", "plain", "--to-earliest", "--execute"),
    ],
    ids=" ".join,
)
def test_a_group_at_work_is_refused_alike(broker, live_group, action):
    args = ("consumer-groups", "--group", live_group, *action)
    kafka, ottla = theirs(broker, *args), ours(broker, *args)
    assert sorted(without_logging(ottla.stdout)) == sorted(without_logging(kafka.stdout))
    assert (ottla.returncode, kafka.returncode) == (1, 0)


def test_both_reassign_alike(broker, tmp_path):
    """A single broker: only the current assignment can be requested."""
    broker.create_topic("reassigned", partitions=2)
    topics, move = tmp_path / "topics.json", tmp_path / "move.json"
    topics.write_text('{"topics": [{"topic": "reassigned"}], "version": 1}')
    move.write_text(
        '{"partitions": [{"topic": "reassigned", "partition": 1, "replicas": [0]}], "version": 1}'
    )
    for args in (
        ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "0"),
        ("--execute", "--reassignment-json-file", str(move), "--throttle", "100000"),
        ("--verify", "--reassignment-json-file", str(move)),
        ("--list",),
        ("--verify", "--list"),
    ):
        kafka, ottla = (
            theirs(broker, "reassign-partitions", *args),
            ours(broker, "reassign-partitions", *args),
        )
        assert without_logging(ottla.stdout) == without_logging(kafka.stdout)
        assert ottla.returncode == kafka.returncode


def test_both_see_the_same_log_directories(broker):
    args = ("log-dirs", "--describe", "--topic-list", "plain")
    kafka, ottla = theirs(broker, *args).stdout.splitlines(), ours(broker, *args).stdout.splitlines()
    assert kafka[:2] == ottla[:2]

    def ordered(line: str) -> object:
        document = json.loads(line)
        for directory in document["brokers"][0]["logDirs"]:
            directory["partitions"].sort(key=lambda entry: entry["partition"])
        return document

    assert ordered(kafka[2]) == ordered(ottla[2])


def test_both_delete_records_alike(broker, tmp_path):
    broker.create_topic("shrinking", partitions=3)
    for partition in range(3):
        for _ in range(4):
            broker.produce("shrinking", b"x", partition=partition)
    file = tmp_path / "offsets.json"
    said = []
    for run, offset in ((theirs, 2), (ours, 2)):
        partitions = [{"topic": "shrinking", "partition": number, "offset": offset} for number in range(2)]
        partitions.append({"topic": "shrinking", "partition": 2, "offset": 99})
        file.write_text(json.dumps({"partitions": partitions, "version": 1}))
        done = run(broker, "delete-records", "--offset-json-file", str(file))
        said.append((sorted(without_logging(done.stdout)), done.returncode))
    assert said[0] == said[1]
    for text in ("{", '{"version": 2, "partitions": []}', json.dumps({"partitions": partitions[:1] * 2})):
        file.write_text(text)
        kafka, ottla = (
            run(broker, "delete-records", "--offset-json-file", str(file)) for run in (theirs, ours)
        )
        assert ottla.returncode == kafka.returncode == 1


def test_kafkas_console_tools_work_against_ottla(broker):
    broker.create_topic("console", partitions=1)
    reading = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=,")
    assert (
        theirs(broker, "console-producer", "--topic", "console", *reading, input="k1,v1\nk2,v2\n").returncode
        == 0
    )
    printing = [
        part
        for name in ("print.key", "print.offset", "print.partition", "print.headers", "print.timestamp")
        for part in ("--formatter-property", f"{name}=true")
    ]
    options = ("--topic", "console", "--from-beginning", "--max-messages", "2", *printing)
    kafka, ottla = theirs(broker, "console-consumer", *options), ours(broker, "console-consumer", *options)
    assert kafka.stdout == ottla.stdout
    assert ottla.stdout.splitlines()[1].endswith("Partition:0\tOffset:1\tNO_HEADERS\tk2\tv2")
    assert kafka.stderr.splitlines()[-1] == ottla.stderr.splitlines()[-1] == "Processed a total of 2 messages"


def test_kafkas_measuring_tools_work_against_ottla(broker):
    broker.create_topic("measured")
    produced = run_tool(
        CLASSES["producer-perf-test"],
        ["--topic", "measured", "--num-records", "5000", "--record-size", "100", "--throughput", "-1",
         "--bootstrap-server", broker.bootstrap_servers],
    )  # fmt: skip
    assert produced.stdout.splitlines()[-1].startswith("5000 records sent, ")
    consumed = theirs(broker, "consumer-perf-test", "--topic", "measured", "--num-records", "5000")
    assert consumed.stdout.splitlines()[-1].split(", ")[4] == "5000"
    timed = ("--num-records", "5", "--producer-acks", "all", "--record-size", "10")
    shapes = []
    for run, name in ((theirs, "kafka-timed"), (ours, "ottla-timed")):
        printed = run(broker, "e2e-latency", "--topic", name, *timed).stdout.replace(name, "T")
        shapes.append(re.sub(r"\d+(\.\d+)?", "N", printed).splitlines())
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == 4
    verified = theirs(broker, "verifiable-producer", "--topic", "verified", "--max-messages", "3")
    mine = ours(broker, "verifiable-producer", "--topic", "verified", "--max-messages", "3")
    assert [list(json.loads(line)) for line in verified.stdout.splitlines()] == [
        list(json.loads(line)) for line in mine.stdout.splitlines()
    ]


# -- files ---------------------------------------------------------------------------------------------


def test_both_dump_the_same(tmp_path):
    config = {"log.index.interval.bytes": "100"}
    with Broker(data=tmp_path, config=config) as broker:
        broker.create_topic("t")
        for number in range(20):
            broker.produce("t", b"value %d" % number, key=b"k", timestamp=1000 + number)
        ours(broker, "console-producer", "--topic", "t", "--compression-codec", "lz4", input="a\nb\n")
        ours(
            broker,
            "console-consumer",
            "--topic",
            "t",
            "--group",
            "g",
            "--from-beginning",
            "--max-messages",
            "9",
        )
    topic = tmp_path / "t-0"
    snapshot = tmp_path / "00000000000000000105.snapshot"
    entry = ProducerEntry(3)
    entry.batches.append((5, 9, 100, 104, 1234))
    entry.last_timestamp, entry.coordinator_epoch, entry.txn_first_offset = 1234, 2, 100
    idle = ProducerEntry(0)
    idle.last_timestamp, idle.coordinator_epoch, idle.txn_first_offset = 77, -1, -1
    snapshot.write_bytes(encode_snapshot({7: entry, 8: idle}))
    offsets = max(tmp_path.glob("__consumer_offsets-*/*.log"), key=lambda path: path.stat().st_size)
    segment = topic / "00000000000000000000.log"
    files = sorted(topic.iterdir())
    assert {path.suffix for path in files} >= {".log", ".index", ".timeindex", ".snapshot"}
    for args in (
        [str(segment), "--deep-iteration"],
        [str(segment), "--print-data-log", "--skip-record-metadata"],
        [",".join(map(str, files)), "--print-data-log"],
        [",".join(map(str, files)), "--verify-index-only"],
        [str(snapshot)],
        [str(offsets), "--offsets-decoder"],
    ):
        kafka, ottla = theirs(None, "dump-log", "--files", *args), ours(None, "dump-log", "--files", *args)
        assert ottla.stdout == kafka.stdout
        # Kafka's tool reports a gap before every segment but the first; ours does not.
        assert ottla.stderr == re.sub(
            r"Non-consecutive offsets in .*\n  -1 is followed by \d+\n", "", kafka.stderr
        )
        assert ottla.returncode == kafka.returncode


def test_both_dump_the_same_of_consumer_groups_and_share_groups(tmp_path):
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        address = {"bootstrap.servers": broker.bootstrap_servers}
        consumers = [
            Consumer({**address, "group.id": "g", "group.protocol": "consumer", "client.id": "c"}),
            ShareConsumer({**address, "group.id": "s", "client.id": "c"}),
        ]
        for consumer, topic in zip(consumers, ("^t.*", "t"), strict=True):
            consumer.subscribe([topic])
        shared = []
        deadline = time.monotonic() + 30
        while not shared or not consumers[0].assignment():
            assert time.monotonic() < deadline, "nothing is assigned"
            broker.produce("t", b"value")
            consumers[0].poll(0.1)
            shared += consumers[1].poll(0.1)
        for consumer in consumers:
            consumer.close()
    for topic, decoder, words in (
        (
            "__consumer_offsets",
            "--offsets-decoder",
            ["regularExpression", "initializedTopics", "memberEpoch"],
        ),
        ("__share_group_state", "--share-group-state-decoder", ["stateEpoch", "deliveryState"]),
    ):
        files = [path for path in sorted(tmp_path.glob(f"{topic}-*/*.log")) if path.stat().st_size]
        args = ["--files", ",".join(map(str, files)), decoder]
        kafka, ottla = theirs(None, "dump-log", *args), ours(None, "dump-log", *args)
        assert ottla.stdout == kafka.stdout
        assert all(word in ottla.stdout for word in words)


def test_kafkas_own_files_are_dumped_alike(tmp_path):
    """OTTLA_TEST_KAFKA_LOGS names a log directory of Apache Kafka."""
    given = os.environ.get("OTTLA_TEST_KAFKA_LOGS")
    if not given:
        pytest.skip("OTTLA_TEST_KAFKA_LOGS does not name a log directory of Apache Kafka")
    cases = {
        "__transaction_state-*/0*.log": "--transaction-log-decoder",
        "__consumer_offsets-*/0*.log": "--offsets-decoder",
        "*/0*.txnindex": "--print-data-log",
    }
    for pattern, option in cases.items():
        path = max(Path(given).glob(pattern), key=lambda path: path.stat().st_size)
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        args = ("dump-log", "--files", str(copy), option)
        assert classic(ours(None, *args).stdout) == classic(theirs(None, *args).stdout)


def classic(text: str) -> list[str]:
    """Remove the records of the newer group protocols, which our tool does not read yet."""
    return [line for line in text.splitlines() if not re.search(r'key: {"type":"([3-9]|\d\d)"', line)]
