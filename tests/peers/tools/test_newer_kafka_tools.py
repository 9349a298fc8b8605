"""Promise: the tools for transactions, share groups and features print the same as Kafka's own tools, which in turn
work against Ottla. Each case runs both against an Ottla broker and against Apache Kafka.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.testing import Broker
from tests.peers.tools.kafka_tools import ours, theirs, without_logging

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def broker(request) -> Iterator[Broker | ApacheKafka]:
    """A broker with groups of every type, an application's topics, and an open transaction."""
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Broker() if request.param == "ottla" else ApacheKafka() as running:
        fill(running)
        yield running


def fill(broker: Broker | ApacheKafka) -> None:
    common = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 3}
    for topic in ("plain", "written", "app-store-changelog", "app-output"):
        ours(broker, "topics", "--create", "--topic", topic, "--partitions", "2")
    producer = Producer(common)
    for number in range(10):
        producer.produce("plain", b"%d" % number, key=b"k", partition=number % 2)
    assert producer.flush(20) == 0
    for protocol in ("classic", "consumer"):
        member = Consumer(
            {
                **common,
                "group.id": f"g-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        member.subscribe(["plain"])
        wait_for(lambda member=member: member.poll(0.2))
        member.close()
    begin_early(broker, "shared")
    shared = ShareConsumer({**common, "group.id": "shared"})
    shared.subscribe(["plain"])
    wait_for(lambda: len(shared.poll(0.2)))
    shared.close()
    for name in ("done", "open"):
        transactional = Producer({**common, "transactional.id": name, "transaction.timeout.ms": 600_000})
        transactional.init_transactions(30)
        transactional.begin_transaction()
        transactional.produce("written", b"value", partition=0)
        assert transactional.flush(20) == 0
        if name == "done":
            transactional.commit_transaction(30)
    wait_for(lambda: "CompleteCommit" in ours(broker, "transactions", "list").stdout)
    group = ("--group", "app", "--topic", "plain")
    ours(broker, "consumer-groups", *group, "--reset-offsets", "--to-latest", "--execute")


def begin_early(broker, group: str) -> None:
    ours(broker, "configs", "--entity-type", "groups", "--entity-name", group, "--alter", "--add-config",
         "share.auto.offset.reset=earliest")  # fmt: skip


def wait_for(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline


SAME = [
    ("transactions", "list"),
    ("transactions", "list", "--transactional-id-pattern", "do.*"),
    ("transactions", "describe", "--transactional-id", "done"),
    ("transactions", "describe", "--transactional-id", "open"),
    ("transactions", "describe", "--transactional-id", "nobody"),
    ("transactions", "describe-producers", "--topic", "written", "--partition", "0"),
    ("transactions", "find-hanging", "--topic", "written", "--max-transaction-timeout", "0"),
    ("transactions", "abort", "--topic", "written", "--partition", "0", "--start-offset", "99"),
    ("groups", "--list"),
    ("groups", "--list", "--consumer"),
    ("groups", "--list", "--group-type", "share"),
    ("groups", "--list", "--protocol", "consumer"),
    ("share-groups", "--list"),
    ("share-groups", "--list", "--state"),
    ("share-groups", "--describe", "--group", "shared"),
    ("share-groups", "--describe", "--all-groups", "--verbose"),
    ("share-groups", "--describe", "--group", "shared", "--state", "--verbose"),
    ("share-groups", "--describe", "--group", "shared", "--members"),
    ("share-groups", "--describe", "--group", "nobody"),
    ("share-groups", "--describe", "--group", "g-classic"),
    ("share-groups", "--reset-offsets", "--group", "shared", "--all-topics", "--to-earliest", "--dry-run"),
    ("share-groups", "--reset-offsets", "--group", "new", "--topic", "plain:1", "--to-latest", "--dry-run"),
    ("share-groups", "--reset-offsets", "--group", "shared", "--topic", "plain", "--to-datetime",
     "2099-01-01T00:00:00.000", "--dry-run"),
    ("share-groups", "--delete-offsets", "--group", "nobody", "--topic", "plain"),
    ("share-groups", "--delete", "--group", "nobody", "--group", "g-classic"),
    ("features", "describe"),
    ("features", "upgrade", "--feature", "group.version=1", "--dry-run"),
    ("features", "upgrade", "--feature", "group.version=7", "--feature", "share.version=1"),
    ("features", "downgrade", "--feature", "transaction.version=2", "--dry-run"),
    ("features", "disable", "--feature", "nope", "--dry-run"),
    ("client-metrics", "--alter", "--name", "m", "--interval", "5000", "--metrics", "org.apache.,more.", "--match",
     "client_id=a.*"),
    ("client-metrics", "--alter", "--name", "m", "--interval", "x"),
    ("client-metrics", "--alter", "--name", "m", "--interval", "1"),
    ("client-metrics", "--alter", "--name", "m", "--match", ""),
    ("client-metrics", "--list"),
    ("client-metrics", "--describe"),
    ("client-metrics", "--describe", "--name", "m"),
    ("client-metrics", "--describe", "--name", "nobody"),
    ("client-metrics", "--delete", "--name", "m"),
    ("client-metrics", "--delete"),
    ("client-metrics", "--alter", "--metrics", "a."),
    ("client-metrics", "--list", "--describe"),
    ("streams-application-reset", "--application-id", "app", "--input-topics", "plain,nowhere", "--dry-run"),
    ("streams-application-reset", "--application-id", "app", "--input-topics", "plain", "--to-offset", "3",
     "--dry-run"),
    ("streams-application-reset", "--application-id", "app", "--input-topics", "plain", "--shift-by", "-99",
     "--dry-run"),
]  # fmt: skip
# Kafka's tools keep these in hash maps.
UNORDERED = [
    ("share-groups", "--reset-offsets"),
    ("share-groups", "--delete"),
    ("streams-application-reset", "--application-id"),
]


def comparable(lines: list[str]) -> list[str]:
    """Remove values that change between calls: the duration of a transaction, and Kafka's feature epoch."""
    without_duration = [
        re.sub(r"(Ongoing|CompleteCommit)(\s+\d+\s+\d+)\s+\d+", r"\1\2", line) for line in lines
    ]
    return [re.sub(r"(Feature: .* Epoch: )\d+", r"\1", line) for line in without_duration]


@pytest.mark.parametrize("args", SAME, ids=" ".join)
def test_both_tools_say_the_same(broker, args):
    kafka, ottla = theirs(broker, *args), ours(broker, *args)
    expected, said = (comparable(without_logging(each.stdout)) for each in (kafka, ottla))
    if args[:2] in UNORDERED:
        expected, said = sorted(expected), sorted(said)
    assert said == expected
    # Kafka's tools for groups print an error and end with 0. Ours end with 1.
    said_error = args[0].endswith("-groups") and "\nError: " in kafka.stdout
    assert ottla.returncode == (1 if said_error else kafka.returncode)
    # Our errors omit the exception trace and the advice about Kafka's logging.
    if args[0] == "transactions":
        advice = ". Enable debug logging for additional detail."
        assert (
            ottla.stderr.strip()
            == kafka.stderr.strip().replace(f".{advice}", ".").removesuffix(advice[1:]).strip()
        )


OFFLINE = [
    ("version-mapping", "--release-version", "4.1"),
    ("version-mapping", "--release-version", "3.9-IV0"),
    ("feature-dependencies", "--feature", "metadata.version=23", "--feature", "share.version=1"),
    ("feature-dependencies", "--feature", "group.version=9"),
]


@pytest.mark.parametrize("tool", ["features", "storage"])
@pytest.mark.parametrize("args", OFFLINE, ids=" ".join)
def test_both_know_the_same_of_releases(tool, args):
    kafka, ottla = theirs(None, tool, *args), ours(None, tool, *args)
    assert ottla.stdout == kafka.stdout
    assert ottla.returncode == kafka.returncode


def test_each_aborts_what_the_other_sees(broker):
    there = ("--topic", "plain", "--partition", "0")

    def begin(name: str) -> str:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "log_level": 3}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("plain", b"value", partition=0)
        assert producer.flush(20) == 0
        listed = ours(broker, "transactions", "describe-producers", *there).stdout
        return max(line.split()[-1] for line in listed.splitlines()[1:] if line.split()[-1] != "None")

    for name, run in (("by-us", ours), ("by-them", theirs)):
        start = begin(name)
        assert run(broker, "transactions", "abort", *there, "--start-offset", start).returncode == 0
        for look in (ours, theirs):
            assert start not in look(broker, "transactions", "describe-producers", *there).stdout.split()
        assert (
            run(broker, "transactions", "forceTerminateTransaction", "--transactionalId", name).returncode
            == 0
        )


def test_both_consume_as_members_of_share_groups(broker):
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.delivery=true",
             "--formatter-property", "print.partition=true")  # fmt: skip
    ours(broker, "topics", "--create", "--topic", "queue", "--partitions", "1")
    ours(broker, "console-producer", "--topic", "queue", input="".join(f"{n}\n" for n in range(6)))
    for group, (first, second) in (("a", (ours, theirs)), ("b", (theirs, ours))):
        begin_early(broker, group)
        read = (
            "console-share-consumer",
            "--topic",
            "queue",
            "--group",
            group,
            "--timeout-ms",
            "20000",
            *shown,
        )
        taken = first(broker, *read, "--max-messages", "6", "--release")
        again = second(broker, *read, "--max-messages", "6")
        for result, delivery in ((taken, 1), (again, 2)):
            assert without_logging(result.stdout) == [
                f"Partition:0\tDelivery:{delivery}\tnull\t{n}" for n in range(6)
            ]
            assert result.returncode == 0
            assert "Processed a total of 6 messages" in result.stderr


def test_both_verify_what_they_consume(broker):
    def told(run, group: str) -> list[object]:
        result = run(
            broker, "verifiable-share-consumer", "--topic", "plain", "--group-id", group, "--max-messages", "8",
            "--offset-reset-strategy", "earliest", "--acknowledgement-mode", "sync",
        )  # fmt: skip
        events = [json.loads(line) for line in without_logging(result.stdout) if line.startswith("{")]
        return sorted({(event["name"], tuple(sorted(event))) for event in events})

    assert told(ours, "verified-by-us") == told(theirs, "verified-by-them")


def test_both_measure_share_groups(broker):
    for run, group in ((ours, "measured-by-us"), (theirs, "measured-by-them")):
        begin_early(broker, group)
        result = run(broker, "share-consumer-perf-test", "--topic", "plain", "--group", group, "--num-records", "5",
                     "--timeout", "20000", "--show-consumer-stats")  # fmt: skip
        header, member, total = without_logging(result.stdout)
        assert header == (
            "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
        )
        assert member.startswith(
            "Share consumer 1 having client id perf-share-consumer-client consumption metrics- "
        )
        assert len(total.split(", ")) == 7
        assert int(total.split(", ")[5]) >= 5
