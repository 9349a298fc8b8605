"""Java's producer and Kafka's subscription tool: the collector receives the pushed metrics."""

from __future__ import annotations

import pytest

from bench.peers.apache_kafka import PRODUCER_PERFORMANCE, Unavailable, kafka_jars, run_tool
from ottla.testing import Broker
from tests.broker.telemetry.collector import Collector

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"


def test_javas_producer_pushes_what_kafkas_tool_asks_for() -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Collector() as collector:
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        with Broker(config={"telemetry.otlp.endpoint": endpoint}) as broker:
            where = ["--bootstrap-server", broker.bootstrap_servers]
            asked = [
                "--alter",
                "--name",
                "producers",
                "--metrics",
                "org.apache.kafka.producer.",
                "--interval",
                "500",
            ]
            run_tool(CLIENT_METRICS, [*where, *asked, "--match", "client_software_name=apache-kafka-java"])
            broker.create_topic("t")
            settings = [f"bootstrap.servers={broker.bootstrap_servers}", "client.id=java-app"]
            work = ["--topic", "t", "--num-records", "2000", "--record-size", "100", "--throughput", "1000"]
            run_tool(PRODUCER_PERFORMANCE, [*work, "--producer-props", *settings])
            body = collector.bodies.get(timeout=30)
            while b"org.apache.kafka.producer." not in body:
                body = collector.bodies.get(timeout=30)
            for expected in (b"java-app", b"apache-kafka-java", b"client_instance_id"):
                assert expected in body
            assert b"org.apache.kafka.consumer." not in body
        collector.shutdown()
        collector.thread.join()
