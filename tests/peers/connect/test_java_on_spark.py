"""A connector from a jar in Spark's Python workers, with a killed Connect worker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.peers.apache_kafka import Unavailable, application_classpath
from ottla.client.settings import Settings, parse_servers
from ottla.testing import Broker
from tests.connect.runtime.conftest import STRING, committed_records, offset_topic, wait_for
from tests.connect.runtime.worker_process import WorkerProcess

__all__ = ["offset_topic"]

pytestmark = [pytest.mark.peers, pytest.mark.spark, pytest.mark.timeout(600)]
pytest.importorskip("jpype", reason="Connectors in Java need JPype")


def test_a_java_source_gives_each_line_once_after_its_worker_was_killed(
    ottla_broker: Broker, ottla_topic: str, offset_topic: str, tmp_path: Path
) -> None:
    try:
        libs = Path(application_classpath().removesuffix("/*"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    (tmp_path / "plugins").mkdir()
    for jar in libs.glob("connect-file-*.jar"):
        shutil.copy(jar, tmp_path / "plugins")
    settings = {
        "bootstrap.servers": ottla_broker.bootstrap_servers,
        "group.id": "java-killed",
        "key.converter": STRING,
        "value.converter": STRING,
        "config.storage.topic": "configs",
        "status.storage.topic": "statuses",
        "offset.storage.topic": offset_topic,
        "plugin.path": str(tmp_path / "plugins"),
        "kafka.libs.path": str(libs),
    }
    lines = tmp_path / "lines"
    source = {
        "name": "java-in",
        "connector.class": "java:org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(lines),
        "topic": ottla_topic,
    }
    client = Settings(parse_servers(ottla_broker.bootstrap_servers))
    expected: list[str] = []
    for _ in range(2):
        new = [f"line {len(expected) + number}" for number in range(1000)]
        with lines.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        expected.extend(new)
        worker = WorkerProcess(tmp_path, settings, source)
        wait_for(
            lambda: len(committed_records(client, ottla_topic)) >= len(expected),
            "lines are missing",
            240,
        )
        worker.kill()
    assert [(each.value or b"").decode() for each in committed_records(client, ottla_topic)] == expected
