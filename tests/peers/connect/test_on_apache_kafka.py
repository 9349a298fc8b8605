"""Our tasks against Apache Kafka brokers: many transactions of one producer, and group offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.client.admin.groups import committed_offsets
from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.engine import ConnectorStatus, Engine
from ottla.connect.runtime.spark.host import ThreadHost
from tests.connect.runtime.conftest import STRING, committed_records, wait_for

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ApacheKafka(data=tmp_path_factory.mktemp("kafka")) as running:
        yield running.bootstrap_servers


def test_a_file_goes_through_a_topic_of_apache_kafka_into_another_file(kafka: str, tmp_path: Path) -> None:
    worker = WorkerConfig.from_properties(
        {
            "bootstrap.servers": kafka,
            "group.id": "ours",
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.flush.interval.ms": "200",
            **{f"{kind}.storage.topic": f"ours-{kind}" for kind in ("config", "offset", "status")},
        }
    )
    cluster = Cluster(worker.client_settings)
    create_topic(cluster, "ours-offset", partitions=3, configs={"cleanup.policy": "compact"})
    create_topic(cluster, "lines", partitions=1)
    lines, out = tmp_path / "lines", tmp_path / "out"
    source = {
        "name": "in",
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": "lines",
        "batch.size": "10",
        "transaction.boundary": "poll",
        # With a transform, each poll returns records instead of columns: a hundred transactions of the same producer.
        "transforms": "mark",
        "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.mark.header": "from",
        "transforms.mark.value.literal": "file",
    }
    sink = {"name": "out", "connector.class": "FileStreamSink", "file": str(out), "topics": "lines"}
    expected = [f"line {number}" for number in range(1000)]
    lines.write_text("".join(f"{each}\n" for each in expected[:500]))
    engine = Engine(None, worker, host=ThreadHost())
    said: list[ConnectorStatus] = []
    running = [engine.start(each["name"], each, on_change=said.append) for each in (source, sink)]

    def arrived(count: int) -> bool:
        return len(committed_records(worker.client_settings, "lines")) >= count

    wait_for(lambda: arrived(500), f"{said}")
    running[0].stop()
    with lines.open("a") as file:
        file.writelines(f"{each}\n" for each in expected[500:])
    running[0] = engine.start("in", source, on_change=said.append)
    wait_for(lambda: arrived(1000), f"{said}")
    found = committed_records(worker.client_settings, "lines")
    assert [(each.value or b"").decode() for each in found] == expected
    wait_for(lambda: out.exists() and out.read_text().splitlines() == expected, "the sink has missed some")
    for each in running:
        each.stop()
    engine.close()
    # Transaction markers occupy offsets.
    assert committed_offsets(cluster, "connect-out")["lines", 0] > 1000
    cluster.close()
