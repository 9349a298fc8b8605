"""Promise: the schema registry stores its schemas in Apache Kafka like in Ottla."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, list_offsets
from ottla.protocol.records import read_records
from ottla.registry.log import Fenced, LogProducer
from ottla.registry.model.records import NOOP, SCHEMA, Key, Write
from ottla.registry.settings import RegistrySettings
from tests.registry.conftest import Api, in_background, record

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    config = {"group.initial.rebalance.delay.ms": "0"}
    with ApacheKafka(data=tmp_path_factory.mktemp("kafka"), config=config) as started:
        yield started.bootstrap_servers


def settings(bootstrap_servers: str, topic: str) -> RegistrySettings:
    return RegistrySettings.from_properties(
        {
            "kafkastore.bootstrap.servers": bootstrap_servers,
            "kafkastore.topic": topic,
            "schema.registry.group.id": f"group-{topic}",
            "listeners": "http://127.0.0.1:0",
        }
    )


def keys(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    """Read the topic's keys with an independent client."""
    cluster = Cluster(settings(bootstrap_servers, topic).client)
    partition = TopicPartition(topic, 0)
    offset = list_offsets(cluster, {partition: EARLIEST})[partition].offset
    fetched = PartitionFetcher(cluster, partition, FetchOptions()).fetch(offset)
    found = [
        each.key for header, batch in read_records(fetched.records) if not header.is_control for each in batch
    ]
    cluster.close()
    return found


def test_two_nodes_and_a_third_that_takes_over(kafka: str) -> None:
    with in_background(settings(kafka, "two")) as one, in_background(settings(kafka, "two")) as two:
        apis = [Api(one.url), Api(two.url)]
        for number in range(20):
            api = apis[number % 2]
            assert api.id_of(f"s{number}", record(f"R{number}", "x")) == number + 1
            assert api.get(f"/subjects/s{number}/versions") == [1]
        assert apis[0]("DELETE", "/subjects/s0").body == [1]
    with in_background(settings(kafka, "two")) as third:
        api = Api(third.url)
        assert len(api.get("/subjects")) == 19
        assert api.id_of("next", record("Next", "x")) == 21


def test_who_was_replaced_cannot_write(kafka: str) -> None:
    with in_background(settings(kafka, "fenced")) as registry:
        api = Api(registry.url)
        api.id_of("a", '"int"')
        client = settings(kafka, "fenced").client
        older, newer = (LogProducer(client, "fenced", "group-fenced-fenced") for _ in range(2))
        older.take_over(10)
        older.append([Write(Key(SCHEMA, "x", 1), None)], 10)
        newer.take_over(10)
        before = keys(kafka, "fenced")
        with pytest.raises(Fenced):
            older.append([Write(Key(SCHEMA, "y", 1), None)], 10)
        assert keys(kafka, "fenced") == before
        newer.append([Write(Key(NOOP), None)], 10)
        older.close()
        newer.close()
        assert api.id_of("b", '"long"') == 2
