"""Connectors from Kafka's own jars, inside a Python process: sources exactly once, sinks at least once."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.peers.apache_kafka import VERSION, Unavailable, application_classpath, kafka_jars, resolve
from ottla.connect.config.providers import ConfigProviders
from ottla.connect.plugins import PluginKind, available, find
from ottla.connect.runtime.engine import State
from ottla.connect.worker.validation.connector_configs import plugin_definitions, validate
from ottla.testing import Broker
from tests.connect.connectors.postgres import PASSWORD, PostgresDatabase, postgres, postgres_server
from tests.connect.runtime.conftest import Worker, new_worker, offset_topic, wait_for, worker

__all__ = ["new_worker", "offset_topic", "postgres", "postgres_server", "worker"]

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
pytest.importorskip("jpype", reason="Connectors in Java need JPype")

_FILE_SOURCE = "java:org.apache.kafka.connect.file.FileStreamSourceConnector"
_FILE_SINK = "java:org.apache.kafka.connect.file.FileStreamSinkConnector"
DEBEZIUM = "3.2.0.Final"
POSTGRES = f"io.debezium:debezium-connector-postgres:{DEBEZIUM}"

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
    artifact = f"org.apache.kafka:connect-test-plugins:{VERSION}"
    tools = resolve(f"connect-test-plugins-{VERSION}", [artifact], transitive=False)
    (plugins / "tools").symlink_to(tools)
    (plugins / "debezium").symlink_to(resolve(f"debezium-postgres-{DEBEZIUM}", [POSTGRES]))
    return {"plugin_path": str(plugins), "kafka_libs_path": f"{libs},{kafka_jars()}"}


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


def test_validation_lists_the_settings_of_a_java_connector(java_worker: Worker) -> None:
    config = {"name": "v", "connector.class": _FILE_SOURCE, "topic": "t", "batch.size": "many"}
    answer = validate(config, java_worker.config, ConfigProviders.from_config({}), from_operator=True)
    entries = {each["value"]["name"]: each for each in answer.configs}
    assert entries["file"]["definition"]["documentation"].startswith("Source filename.")
    assert entries["batch.size"]["definition"]["default_value"] == "2000"
    assert "Invalid value many for configuration batch.size" in entries["batch.size"]["value"]["errors"][0]
    assert "batch.size" in {each["name"] for each in plugin_definitions(_FILE_SOURCE)}


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


def test_structs_cross_from_java_with_their_schemas(java_worker: Worker, ottla_topic: str) -> None:
    config = {
        "name": f"schemas-{ottla_topic}",
        "connector.class": "java:org.apache.kafka.connect.tools.SchemaSourceConnector",
        "id": "1",
        "topic": ottla_topic,
        "throughput": "1000",
        "num.messages": "20",
        "partition.count": "1",
        "value.converter": _JSON,
    }
    java_worker.start(config)
    java_worker.await_values(ottla_topic, 20)
    first = json.loads(java_worker.records(ottla_topic)[0].value or b"")
    fields = {each["field"]: each["type"] for each in first["schema"]["fields"]}
    assert fields["boolean"] == "boolean"
    assert fields["double"] == "double"
    assert fields["long"] == "int64"
    assert [json.loads(each or "")["payload"]["seqno"] for each in java_worker.values(ottla_topic)] == [
        *range(20)
    ]


def test_a_task_that_dies_in_java_is_failed_with_javas_stack_trace(java_worker: Worker) -> None:
    config = {
        "name": f"mock-{uuid.uuid4().hex[:6]}",
        "connector.class": "java:org.apache.kafka.connect.tools.MockSourceConnector",
        "mock_mode": "task-failure",
        "delay_ms": "10",
        "tasks.max": "1",
    }
    running = java_worker.start(config)
    java_worker.await_state(running, State.RUNNING, State.FAILED)
    trace = running.status.tasks[0].trace or ""
    assert trace.startswith("java.lang.RuntimeException: ")
    assert "MockSourceTask" in trace


def test_debeziums_postgres_connector_gives_each_change_once_over_restarts(
    java_worker: Worker, postgres: PostgresDatabase
) -> None:
    """Snapshot and stream; a stopping task releases the slot."""
    postgres.run(
        "CREATE TABLE notes (id int PRIMARY KEY, text text)", "INSERT INTO notes VALUES (0, 'first')"
    )
    name = f"pg{uuid.uuid4().hex[:6]}"
    topic = f"{name}.public.notes"
    config = {
        "name": name,
        "connector.class": "java:io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.server.port),
        "database.user": postgres.server.user,
        "database.password": PASSWORD,
        "database.dbname": postgres.name,
        "topic.prefix": name,
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.autocreate.mode": "all_tables",
        "poll.interval.ms": "50",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }
    java_worker.broker.create_topic(topic)
    count = 1
    for _ in range(2):
        running = java_worker.start(config)
        java_worker.await_values(topic, count)
        postgres.run(*(f"INSERT INTO notes VALUES ({count + n}, 'note')" for n in range(5)))
        count += 5
        java_worker.await_values(topic, count)
        postgres.run(f"INSERT INTO notes VALUES ({count}, 'late')")
        count += 1
        running.stop()
    running = java_worker.start(config)
    java_worker.await_values(topic, count)
    running.stop()
    changes = [json.loads(each or "") for each in java_worker.values(topic)]
    assert [each["after"]["id"] for each in changes] == [*range(count)]
    assert [each["op"] for each in changes] == ["r", *["c"] * (count - 1)]
