"""Promise: Apache Kafka gives the responses that the streams group tests expect of Ottla, and both tools print the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.protocol.messages.cluster import MetadataRequest
from ottla.protocol.messages.streams_groups import Endpoint, KeyValue, TaskIds
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from ottla.testing import Broker
from tests.broker.apis.streams_wire import WRONG_JOINS, StreamsWire, life_of_a_group, until
from tests.peers.tools.kafka_tools import ours, theirs, without_logging
from tests.wire_client import WireClient

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def client() -> Iterator[WireClient]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ApacheKafka(config=SETTINGS) as kafka, WireClient(kafka.bootstrap_servers) as client:
        yield client


def test_kafka_answers_the_life_of_a_group_in_the_same_way(client: WireClient) -> None:
    def topics() -> set[str]:
        answer: Any = client.call(MetadataRequest(topics=None))
        return {topic.name for topic in answer.topics}

    def create_source() -> None:
        topic = CreatableTopic(name="in", num_partitions=2, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        until(lambda: "in" in topics())

    life_of_a_group(StreamsWire(client, "g", "in"), create_source, topics)


@pytest.mark.parametrize(("change", "message"), WRONG_JOINS)
def test_kafka_refuses_the_same_requests(client: WireClient, change: dict[str, Any], message: str) -> None:
    wire = StreamsWire(client, "wrong", "in")
    change = dict(change)
    assert wire.join(change.pop("member_id", "m1"), **change) == ("INVALID_REQUEST", message)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with an active group, a group with missing topics, and an empty group."""
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    patient = {
        "group.streams.max.session.timeout.ms": "3600000",
        "group.streams.session.timeout.ms": "3600000",
        "group.streams.num.standby.replicas": "1",
    }
    with Broker(config=patient) as broker, WireClient(broker.bootstrap_servers) as client:
        wire = StreamsWire(client, "busy", "in")
        for name in ("in", "busy-repartition", "busy-changelog"):
            broker.create_topic(name, partitions=2)
        for number in range(5):
            broker.produce("in", str(number).encode(), partition=0)
        wire.join("m1")
        wire.join("m2")
        wire.heartbeat("m1", 2)
        standby = [TaskIds(subtopology_id="1", partitions=[0])]
        wire.heartbeat("m1", 2, {"0": [0], "1": [0]})
        wire.heartbeat("m2", 3, {}, standby_tasks=standby)
        wire.heartbeat("m1", 3)
        wire.commit("m1", 3)
        StreamsWire(client, "waiting", "nowhere").join("m1")
        left = StreamsWire(client, "left", "in")
        left.join("m1")
        left.heartbeat("m1", -1)
        yield broker


@pytest.mark.parametrize(
    "args",
    [
        ("--list",),
        ("--list", "--state"),
        ("--list", "--state", "NotReady"),
        ("--describe", "--group", "busy"),
        ("--describe", "--group", "busy", "--offsets", "--verbose"),
        ("--describe", "--group", "busy", "--members"),
        ("--describe", "--group", "busy", "--members", "--verbose"),
        ("--describe", "--all-groups", "--state"),
        ("--describe", "--group", "left"),
        ("--describe", "--group", "waiting", "--members"),
        ("--describe", "--group", "nobody"),
        ("--delete", "--group", "busy"),
        ("--delete", "--group", "nobody"),
        ("--delete-offsets", "--group", "busy", "--input-topic", "in"),
        ("--delete-offsets", "--group", "left", "--input-topic", "in:0"),
        ("--delete-offsets", "--group", "nobody", "--input-topic", "in"),
        ("--delete-offsets", "--group", "left"),
    ],
)
def test_both_tools_print_the_same(broker: Broker, args: tuple[str, ...]) -> None:
    kafka, ottla = theirs(broker, "streams-groups", *args), ours(broker, "streams-groups", *args)
    expected, said = without_logging(kafka.stdout), without_logging(ottla.stdout)
    # Kafka lists topics in hash map order.
    assert (said[:1], sorted(said)) == (expected[:1], sorted(expected))
    assert ottla.returncode == kafka.returncode


def test_kafka_reads_the_records_of_a_group(tmp_path: Path) -> None:
    """Kafka's own dump-log decodes them, down to the last field."""
    with Broker(data=tmp_path, config={"group.streams.num.standby.replicas": "1"}) as broker:
        for name in ("in", "g-repartition", "g-changelog"):
            broker.create_topic(name, partitions=2)
        with WireClient(broker.bootstrap_servers) as client:
            wire = StreamsWire(client, "g", "in")
            wire.join("m1", user_endpoint=Endpoint(host="h", port=65535), rack_id="r")
            wire.join("m2", client_tags=[KeyValue(key="zone", value="a")])
            wire.heartbeat("m1", 2)
            wire.heartbeat("m1", -1)
    files = [path for path in sorted(tmp_path.glob("__consumer_offsets-*/*.log")) if path.stat().st_size]
    args = ["--files", ",".join(map(str, files)), "--offsets-decoder"]
    kafka, ottla = theirs(None, "dump-log", *args), ours(None, "dump-log", *args)
    assert ottla.stdout == kafka.stdout
    words = ("stateChangelogTopics", "activeTasksPendingRevocation", "userEndpoint", "lastAssignmentConfigs")
    assert all(word in kafka.stdout for word in words)
