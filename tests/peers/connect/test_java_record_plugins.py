"""Transforms, predicates and converters in jars, compiled here against Kafka's interfaces."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.peers.apache_kafka import Unavailable, application_classpath
from ottla.connect.config.providers import ConfigProviders
from ottla.connect.plugins import PluginKind, available
from ottla.connect.runtime.engine import State
from ottla.connect.worker.validation.connector_configs import plugin_definitions, validate
from ottla.testing import Broker
from tests.connect.runtime.conftest import Worker, new_worker, offset_topic, wait_for

__all__ = ["new_worker", "offset_topic"]

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
pytest.importorskip("jpype", reason="Plugins in Java need JPype")

_JAVA = Path(__file__).parent / "java_plugins"
_SERVICES = {
    "transforms.Transformation": "example.Shout$Value",
    "transforms.predicates.Predicate": "example.KeyIs",
    "storage.Converter": "example.ReversedConverter",
    "storage.HeaderConverter": "example.QuotedHeaderConverter",
}
_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@pytest.fixture(scope="module")
def java_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One jar that declares its classes, and one from before such declarations."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("javac is not installed")
    try:
        libs = Path(application_classpath().removesuffix("/*"))
    except Unavailable as reason:
        pytest.skip(str(reason))
    classes, plugins = tmp_path_factory.mktemp("classes"), tmp_path_factory.mktemp("plugins")
    sources = map(str, sorted(_JAVA.glob("*.java")))
    subprocess.run([javac, "-proc:none", "-cp", f"{libs}/*", "-d", str(classes), *sources], check=True)
    for name, undeclared in (("example-1.5.jar", False), ("old.jar", True)):
        with zipfile.ZipFile(plugins / name, "w") as jar:
            for each in classes.rglob("*.class"):
                if (each.stem == "OldTransform") is undeclared:
                    jar.write(each, each.relative_to(classes))
            if not undeclared:
                for interface, declared in _SERVICES.items():
                    jar.writestr(f"META-INF/services/org.apache.kafka.connect.{interface}", declared)
    return {"plugin_path": str(plugins), "kafka_libs_path": str(libs)}


@pytest.fixture
def java_worker(new_worker: Callable[..., Worker], java_settings: dict[str, str]) -> Worker:
    return new_worker(**java_settings)


@pytest.mark.usefixtures("java_worker")
def test_plugins_of_every_kind_are_listed() -> None:
    listed = {(each.class_name, each.type, each.version) for each in available(PluginKind)}
    assert {
        ("example.Shout$Value", "transformation", "1.5"),
        ("example.KeyIs", "predicate", "1.5"),
        ("example.ReversedConverter", "converter", "1.5"),
        ("example.QuotedHeaderConverter", "header_converter", "1.5"),
    } <= listed


def test_a_source_uses_transforms_and_converters_of_jars(
    java_worker: Worker, ottla_topic: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\ndrop\nthree\n")
    config = {
        "name": ottla_topic,
        "connector.class": _SOURCE,
        "file": str(lines),
        "topic": ottla_topic,
        "transforms": "hoist,shout",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.shout.type": "example.Shout$Value",
        "transforms.shout.mark": "!",
        "value.converter": "example.ReversedConverter",
        "header.converter": "example.QuotedHeaderConverter",
    }
    java_worker.start(config)
    values = java_worker.await_values(ottla_topic, 3)
    # The Java transform drops one record and adds a header; the Java converter writes JSON backwards.
    assert [json.loads((each or "")[::-1]) for each in values] == [
        {"line": f"{each}!"} for each in ("ONE", "TWO", "THREE")
    ]
    found = java_worker.records(ottla_topic)[0].headers
    assert found == [{"key": "shouted", "value": b'"3"'}]


def test_a_sink_uses_transforms_and_predicates_of_jars(
    java_worker: Worker, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    config = {
        "name": ottla_topic,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "file": str(written),
        "topics": ottla_topic,
        "transforms": "old,shout",
        "transforms.old.type": "example.OldTransform",
        "transforms.shout.type": "Shout$Value",
        "transforms.shout.predicate": "loud",
        "predicates": "loud",
        "predicates.loud.type": "example.KeyIs",
        "predicates.loud.key": "loud",
    }
    ottla_broker.produce(ottla_topic, b"one", key=b"loud")
    ottla_broker.produce(ottla_topic, b"two", key=b"quiet")
    java_worker.start(config)
    wait_for(lambda: written.exists() and written.read_text() == "OLD ONE\nold two\n")


def test_a_transform_that_throws_fails_the_task_with_javas_stack_trace(
    java_worker: Worker, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    config = {
        "name": ottla_topic,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "file": str(tmp_path / "written"),
        "topics": ottla_topic,
        "transforms": "shout",
        "transforms.shout.type": "example.Shout$Value",
    }
    ottla_broker.produce(ottla_topic, b"fail")
    running = java_worker.start(config)
    java_worker.await_state(running, State.RUNNING, State.FAILED)
    trace = running.status.tasks[0].trace or ""
    assert "This value cannot be shouted" in trace
    assert "example.Shout.apply" in trace


def test_settings_of_java_transforms_are_described_and_checked(java_worker: Worker) -> None:
    config = {
        "name": "checked",
        "connector.class": _SOURCE,
        "topic": "t",
        "transforms": "shout,other,predicate",
        "transforms.shout.type": "example.Shout$Value",
        "transforms.other.type": "example.Absent",
        "transforms.predicate.type": "example.KeyIs",
    }
    answer = validate(config, java_worker.config, ConfigProviders.from_config({}), from_operator=True)
    entries = {each["value"]["name"]: each for each in answer.configs}
    assert entries["transforms.shout.mark"]["definition"]["default_value"] == ""
    assert entries["transforms.shout.mark"]["definition"]["documentation"] == "Text to append."
    assert entries["transforms.other.type"]["value"]["errors"] == [
        "Invalid value example.Absent for configuration transforms.other.type: Class example.Absent could not be found."
    ]
    assert entries["transforms.predicate.type"]["value"]["errors"] == [
        "Invalid value example.KeyIs for configuration transforms.predicate.type: "
        "example.KeyIs is not a Transformation."
    ]


@pytest.mark.usefixtures("java_worker")
def test_settings_of_java_plugins_are_listed() -> None:
    assert [each["name"] for each in plugin_definitions("example.KeyIs")] == ["key"]
