"""A broker exposes its clients' activity under the names that Kafka dashboards query."""

from __future__ import annotations

import uuid

import pytest

from ottla.protocol.messages.cluster import MetadataRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch
from ottla.testing import Broker
from tests.broker.metrics.scraping import Metrics, get, scrape
from tests.wire_client import WireClient

_TOPICS = "kafka_server_brokertopicmetrics"
_REQUESTS = "kafka_network_requestmetrics"


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"t-{uuid.uuid4()}"
    broker.create_topic(name, 2)
    return name


def produce(client: WireClient, topic: str, values: list[bytes], partition: int = 0, acks: int = -1) -> int:
    """Produce a batch and return its size in bytes."""
    batch = bytes(build_batch([Record(0, 1, None, value) for value in values]))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
            )
        ],
    )
    if acks == 0:
        client.send(request, 9)
    else:
        assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0
    return len(batch)


def fetch(client: WireClient, topic: str, offset: int = 0, max_wait_ms: int = 0, min_bytes: int = 0) -> int:
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
        ],
    )
    answer = client.call(request, 12).responses[0].partitions[0]
    assert answer.error_code == 0
    return len(answer.records or b"")


def test_bytes_and_messages_are_counted_by_topic_and_in_all(broker: Broker, topic: str) -> None:
    before = scrape(broker)
    with WireClient(broker.bootstrap_servers) as client:
        size = produce(client, topic, [b"a", b"b", b"c"]) + produce(client, topic, [b"d"], partition=1)
        read = fetch(client, topic) + fetch(client, topic)
    after = scrape(broker)
    assert after.value(f"{_TOPICS}_messagesin_total", topic=topic) == 4
    assert after.value(f"{_TOPICS}_bytesin_total", topic=topic) == size
    assert after.value(f"{_TOPICS}_bytesout_total", topic=topic) == read
    assert after.value(f"{_TOPICS}_totalproducerequests_total", topic=topic) == 2
    assert after.value(f"{_TOPICS}_totalfetchrequests_total", topic=topic) == 2
    for name, grown in (("messagesin", 4), ("bytesin", size), ("bytesout", read)):
        metric = f"{_TOPICS}_{name}_total"
        assert after.value(metric) - before.value(metric) == grown
        assert after.types[metric] == "counter"


def test_the_total_does_not_fall_when_a_topic_goes(broker: Broker, topic: str) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        produce(client, topic, [b"a"] * 10)
    before = scrape(broker)
    broker.delete_topic(topic)
    after = scrape(broker)
    assert not after.all(f"{_TOPICS}_messagesin_total", topic=topic)
    for name in ("messagesin", "bytesin", "totalproducerequests"):
        metric = f"{_TOPICS}_{name}_total"
        assert after.value(metric) == before.value(metric)


def test_requests_are_counted_by_version_and_timed_by_phase(broker: Broker, topic: str) -> None:
    before = scrape(broker)
    with WireClient(broker.bootstrap_servers) as client:
        for _ in range(5):
            client.call(MetadataRequest(topics=None), 8)
        produce(client, topic, [b"a"])
        fetch(client, topic)
    after = scrape(broker)

    def grown(name: str, **labels: str) -> float:
        return after.value(name, **labels) - (
            before.value(name, **labels) if before.all(name, **labels) else 0
        )

    assert grown(f"{_REQUESTS}_requests_total", request="Metadata", version="8") == 5
    assert grown(f"{_REQUESTS}_requests_total", request="FetchConsumer", version="12") == 1
    assert not after.all(f"{_REQUESTS}_requests_total", request="FetchFollower")
    for phase in ("totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "responsesendtimems"):
        metric = f"{_REQUESTS}_{phase}"
        assert after.types[metric] == "summary"
        for request in ("Produce", "FetchConsumer", "Metadata"):
            assert after.total(f"{metric}_count", request=request) >= 1
            assert {each.labels["quantile"] for each in after.all(metric, request=request)} == {
                "0.50", "0.75", "0.95", "0.98", "0.99", "0.999",
            }  # fmt: skip
    local = after.value(f"{_REQUESTS}_localtimems", request="Metadata", quantile="0.50")
    total = after.value(f"{_REQUESTS}_totaltimems", request="Metadata", quantile="0.50")
    assert 0 < local <= total * 1.25


def test_waiting_for_data_is_remote_time(topic: str, broker: Broker) -> None:
    before = scrape(broker)
    with WireClient(broker.bootstrap_servers) as client:
        fetch(client, topic, max_wait_ms=500, min_bytes=1)
    after = scrape(broker)

    def grown(phase: str) -> float:
        name = f"{_REQUESTS}_{phase}_sum"
        return after.total(name, request="FetchConsumer") - before.total(name, request="FetchConsumer")

    assert grown("remotetimems") >= 250  # less than the wait if the machine was slow to begin it
    assert grown("totaltimems") >= grown("remotetimems")


def test_a_fetch_that_waits_is_in_the_purgatory(broker: Broker, topic: str) -> None:
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert scrape(broker).value(name, delayedOperation="Fetch") == 0
    request = FetchRequest(
        max_wait_ms=20_000,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
                    for index in (0, 1)
                ],
            )
        ],
    )
    with WireClient(broker.bootstrap_servers) as client, WireClient(broker.bootstrap_servers) as producer:
        client.send(request, 12)
        while not broker.waiting_fetches(topic):
            pass
        assert scrape(broker).value(name, delayedOperation="Fetch") == 1
        assert scrape(broker).value(name, delayedOperation="Produce") == 0
        produce(producer, topic, [b"a"])
        client.receive(request, 12)
    assert scrape(broker).value(name, delayedOperation="Fetch") == 0


def test_a_produce_without_acks_is_counted_and_timed(broker: Broker, topic: str) -> None:
    before = scrape(broker).total(f"{_REQUESTS}_totaltimems_count", request="Produce")
    with WireClient(broker.bootstrap_servers) as client:
        produce(client, topic, [b"a"], acks=0)
        client.call(MetadataRequest(topics=[]), 8)  # handled after it
    after = scrape(broker)
    assert after.value(f"{_TOPICS}_messagesin_total", topic=topic) == 1
    assert after.total(f"{_REQUESTS}_totaltimems_count", request="Produce") == before + 1


def test_partitions_and_disks_are_shown(broker: Broker, topic: str) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        size = produce(client, topic, [b"a"])
    found = scrape(broker)
    assert found.value("kafka_log_log_size", topic=topic, partition="0") == size
    assert found.value("kafka_log_log_logendoffset", topic=topic, partition="0") == 1
    for name, expected in (("underreplicated", 0), ("underminisr", 0), ("atminisr", 1), ("replicascount", 1)):
        assert found.value(f"kafka_cluster_partition_{name}", topic=topic, partition="1") == expected
    assert found.value("kafka_server_replicamanager_leadercount") >= 2
    assert found.value("kafka_log_logmanager_offlinelogdirectorycount") == 0
    assert found.value("ottla_log_directory_usable_bytes", logDirectory=str(broker.data)) > 0


def test_the_state_of_the_broker_is_shown(broker: Broker) -> None:
    found = scrape(broker)
    assert found.value("kafka_server_kafkaserver_brokerstate") == 3
    assert found.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert found.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert 0 <= found.value("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") <= 1
    assert found.value("process_open_fds") > 0
    with WireClient(broker.bootstrap_servers) as client:
        client.call(MetadataRequest(topics=[]), 8)
        name = "kafka_server_socket_server_metrics_connection_count"
        assert scrape(broker).value(name, listener="PLAINTEXT", networkProcessor="0") >= 1


def test_a_failed_produce_is_counted_unless_the_client_caused_it(broker: Broker, topic: str) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        batch = bytearray(build_batch([Record(0, 1, None, b"a")]))
        batch[-1] ^= 1  # invalidates the checksum
        request = ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))]
                )
            ],
        )
        assert client.call(request, 9).responses[0].partition_responses[0].error_code != 0
    found = scrape(broker)
    assert found.value(f"{_TOPICS}_totalproducerequests_total", topic=topic) == 1
    assert found.value(f"{_TOPICS}_failedproducerequests_total", topic=topic) == 0


def test_what_is_not_metrics_is_refused(broker: Broker) -> None:
    url = broker.metrics_url
    assert get(url, path="/other")[0] == 404
    assert get(url, path="/")[0] == 200
    assert get(url, "POST")[0] == 405
    status, headers, body = get(url, "HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 1000


def test_metrics_of_partitions_are_optional_and_of_requests_too() -> None:
    with Broker(config={"metrics.port": "0", "metrics.partitions.enable": "false"}) as broker:
        broker.create_topic("t", 3)
        found = scrape(broker)
        assert not found.all("kafka_log_log_size")
        assert found.value("kafka_server_replicamanager_partitioncount") == 3


def test_every_metric_has_one_type_and_no_sample_comes_twice(broker: Broker, topic: str) -> None:
    text = get(broker.metrics_url)[2]
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    found = Metrics(text)
    keys = [(each.name, tuple(sorted(each.labels.items()))) for each in found.samples]
    assert len(keys) == len(set(keys))
