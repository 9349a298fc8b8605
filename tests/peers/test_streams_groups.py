"""Promise: what the tests of streams groups expect of Ottla is what Apache Kafka answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.protocol.messages.cluster import MetadataRequest
from ottla.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.apis.streams_wire import WRONG_JOINS, StreamsWire, life_of_a_group, until
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
