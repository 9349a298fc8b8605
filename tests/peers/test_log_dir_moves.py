"""Promise: Apache Kafka's tools move replicas between the disks of an Ottla broker."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bench.peers.apache_kafka import Unavailable, kafka_jars, run_tool
from ottla.testing import Broker

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SMALL_JVM = ("-Xms64m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def kafka(broker: Broker, tool: str, *args: object) -> str:
    done = run_tool(
        f"org.apache.kafka.tools.{tool}",
        ["--bootstrap-server", broker.bootstrap_servers, *map(str, args)],
        check=False,
        timeout=120,
        jvm=SMALL_JVM,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return str(done.stdout)


def places(broker: Broker) -> dict[str, bool]:
    said = kafka(broker, "LogDirsCommand", "--describe", "--topic-list", "t").splitlines()[-1]
    return {
        Path(directory["logDir"]).name: each["isFuture"]
        for directory in json.loads(said)["brokers"][0]["logDirs"]
        for each in directory["partitions"]
    }


def test_kafkas_tools_move_a_replica(tmp_path: Path) -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    dirs = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    with Broker(config=dirs, data=tmp_path / "a") as broker:
        broker.create_topic("t", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(2000):
            producer.produce("t", bytes(1000), partition=0)
        assert producer.flush(30) == 0
        [source] = places(broker)
        target = tmp_path / ("b" if source == "a" else "a")
        file = tmp_path / "wanted.json"
        partition = {"topic": "t", "partition": 0, "replicas": [0], "log_dirs": [str(target)]}
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        reassign = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", file)
        said = kafka(broker, *reassign, "--execute", "--replica-alter-log-dirs-throttle", 1000)
        assert f"Successfully started moving log directory to {target} for replica t-0 with broker 0" in said
        assert places(broker) == {source: False, target.name: True}
        assert "Reassignment of replica t-0-0 is still in progress." in kafka(broker, *reassign, "--verify")
        kafka(broker, *reassign, "--cancel")
        assert places(broker) == {source: False}
        kafka(broker, *reassign, "--execute")
        deadline = time.monotonic() + 60
        while "completed successfully" not in (said := kafka(broker, *reassign, "--verify")):
            assert time.monotonic() < deadline, said
        assert places(broker) == {target.name: False}
