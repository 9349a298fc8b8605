"""Clients push metrics to the broker, which forwards them to a collector."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.broker.telemetry import MalformedMetrics, with_attributes
from ottla.client.admin.configs import Resource, alter_configs
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings, parse_servers
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    ApiVersionsRequest,
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
)
from ottla.testing import Broker
from tests.broker.metrics.scraping import scrape
from tests.broker.telemetry.collector import Collector
from tests.wire_client import WireClient

# One resource without attributes, with an empty list of metrics
METRICS = b"\x0a\x02\x12\x00"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running
        running.shutdown()
        running.thread.join()


@pytest.fixture(scope="module")
def broker(collector: Collector) -> Iterator[Broker]:
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    with Broker(config={"telemetry.otlp.endpoint": endpoint, "metrics.port": "0"}) as running:
        cluster = Cluster(Settings(parse_servers(running.bootstrap_servers)))
        alter_configs(
            cluster, Resource("client-metric", "everything"), set_={"metrics": "*", "interval.ms": "100"}
        )
        cluster.close()
        yield running


def test_librdkafka_pushes_and_the_collector_gets_it(broker: Broker, collector: Collector) -> None:
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "my-app"})
    producer.produce("t", b"value")
    assert producer.flush(20) == 0
    body = collector.bodies.get(timeout=20)
    while b"producer" not in body:
        body = collector.bodies.get(timeout=20)
    for expected in (b"client_id", b"my-app", b"client_software_name", b"client_instance_id"):
        assert expected in body
    del producer
    found = scrape(broker)
    assert found.value("ottla_client_telemetry_exported_total") >= 1
    assert found.value("ottla_client_telemetry_instances") >= 1


def test_every_codec_is_understood(broker: Broker, collector: Collector) -> None:
    for codec in Codec:
        with WireClient(broker.bootstrap_servers) as client:
            asked = client.call(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)))
            assert asked.error_code == 0
            assert (asked.requested_metrics, asked.push_interval_ms) == (["*"], 100)
            assert asked.accepted_compression_types == [4, 3, 1, 2]
            assert asked.telemetry_max_bytes == 1048576
            pushed = client.call(
                PushTelemetryRequest(
                    client_instance_id=asked.client_instance_id,
                    subscription_id=asked.subscription_id,
                    compression_type=codec,
                    metrics=compress(codec, METRICS),
                )
            )
            assert pushed.error_code == 0
        while b"client_id\x12\x06\x0a\x04test" not in collector.bodies.get(timeout=20):
            pass


def test_what_is_no_metrics_is_refused(broker: Broker) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        asked = client.call(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)))
        pushed = client.call(
            PushTelemetryRequest(
                client_instance_id=asked.client_instance_id,
                subscription_id=asked.subscription_id,
                compression_type=0,
                metrics=json.dumps({"no": "protobuf"}).encode(),
            )
        )
        assert pushed.error_code == ErrorCode.INVALID_RECORD


def test_without_a_collector_clients_are_not_asked() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        answer = client.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        assert not {71, 72} & {each.api_key for each in answer.api_keys}


def test_attributes_are_added_to_each_resource() -> None:
    two = METRICS + b"\x0a\x00"
    added = with_attributes(two, {"k": "v" * 200})
    assert added.count(b"v" * 200) == 2
    assert with_attributes(two, {}) != b""
    for wrong in (b"\x08\x01", b"\x0a\x05\x00", b"\x0a" + b"\xff" * 9):
        with pytest.raises(MalformedMetrics):
            with_attributes(wrong, {})
