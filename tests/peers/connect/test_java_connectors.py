"""Connectors of Kafka's own jars, inside a Python process: sources exactly once, sinks at least once."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.apache_kafka import Unavailable, application_classpath
from ottla.spark.connect.plugins import PluginKind, available, find
from ottla.spark.connect.runtime.engine import State
from ottla.testing import Broker
from tests.spark.connect.runtime.conftest import Worker, new_worker, offset_topic, wait_for, worker

__all__ = ["new_worker", "offset_topic", "worker"]

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
pytest.importorskip("jpype", reason="Connectors in Java need JPype")

_FILE_SOURCE = "java:org.apache.kafka.connect.file.FileStreamSourceConnector"
_FILE_SINK = "java:org.apache.kafka.connect.file.FileStreamSinkConnector"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def java_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A plugin path with connect-file alone, and Kafka's libraries elsewhere, as in a distribution."""
    try:
        libs = Path(application_classpath().removesuffix("/*"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    plugins = tmp_path_factory.mktemp("plugins")
    (plugins / "connect-file").mkdir()
    for jar in libs.glob("connect-file-*.jar"):
        shutil.copy(jar, plugins / "connect-file")
    return {"plugin_path": str(plugins), "kafka_libs_path": str(libs)}


@pytest.fixture
def java_worker(new_worker: Callable[..., Worker], java_settings: dict[str, str]) -> Worker:
    return new_worker(**java_settings)


def test_the_connectors_of_the_plugin_path_are_known(java_worker: Worker) -> None:
    listed = {(each.class_name, each.type) for each in available([PluginKind.CONNECTOR])}
    assert ("org.apache.kafka.connect.file.FileStreamSourceConnector", "source") in listed
    loaded = find(_FILE_SOURCE).load()()
    assert loaded.version.startswith("4.")
    assert loaded.config_def.keys["batch.size"].default == 2000
    assert loaded.config_def.keys["topic"].is_required
    assert loaded.validate({"file": "f"})["topic"] == [
        'Missing required configuration "topic" which has no default value.'
    ]


def test_a_java_source_gives_each_line_once_over_restarts(
    java_worker: Worker, ottla_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    config = {
        "name": f"java-{ottla_topic}",
        "connector.class": _FILE_SOURCE,
        "file": str(path),
        "topic": ottla_topic,
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        "transforms": "hoist",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
    }
    expected: list[str] = []

    def grow(count: int) -> None:
        new = [f"line {len(expected) + number}" for number in range(count)]
        with path.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        expected.extend(f'{{"line":"{line}"}}' for line in new)

    for _ in range(3):
        grow(200)
        running = java_worker.start(config)
        java_worker.await_values(ottla_topic, len(expected))
        grow(50)
        running.stop()
    running = java_worker.start(config)
    java_worker.await_values(ottla_topic, len(expected))
    assert java_worker.values(ottla_topic) == expected
    java_worker.await_state(running, State.RUNNING, State.RUNNING)


def test_a_java_source_that_fails_says_why(java_worker: Worker, ottla_topic: str, tmp_path: Path) -> None:
    config = {
        "name": f"java-{ottla_topic}",
        "connector.class": _FILE_SOURCE,
        "file": str(tmp_path / "f"),
        "topic": ottla_topic,
        "batch.size": "many",
    }
    running = java_worker.start(config)
    wait_for(lambda: running.status.state is State.FAILED or [e for e in running.status.tasks if e.trace])
    trace = running.status.trace or running.status.tasks[0].trace or ""
    assert "Invalid value many for configuration batch.size" in trace.partition("\n")[0]


def test_a_java_sink_writes_what_its_group_has_not_committed(
    java_worker: Worker, ottla_broker: Broker, tmp_path: Path
) -> None:
    topic = f"java-sink-{uuid.uuid4().hex[:6]}"
    ottla_broker.create_topic(topic)
    path = tmp_path / "out"
    config = {"name": topic, "connector.class": _FILE_SINK, "file": str(path), "topics": topic}
    ottla_broker.produce(topic, b"a", key=b"k", headers=[("h", b"1")])
    ottla_broker.produce(topic, "ä".encode())
    running = java_worker.start(config)
    wait_for(lambda: path.exists() and path.read_text() == "a\nä\n")
    running.stop()
    ottla_broker.produce(topic, b"b")
    java_worker.start(config)
    wait_for(lambda: path.read_text() == "a\nä\nb\n")
