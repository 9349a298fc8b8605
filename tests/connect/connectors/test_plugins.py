"""Every built-in connector can be found by its names and described."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path

import pytest

from ottla.connect import plugins
from ottla.connect.api import SinkConnector, SinkTask, SourceConnector, SourceTask
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.connectors import PLUGINS
from ottla.connect.java.finder import use_plugin_path


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_connector_is_where_its_name_leads(name: str) -> None:
    module, _, attribute = PLUGINS[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    assert issubclass(found, SourceConnector | SinkConnector)
    assert issubclass(found.task_class, SourceTask | SinkTask)
    assert issubclass(found, SourceConnector) == issubclass(found.task_class, SourceTask)
    assert found.summary
    for key in found.config_def.keys.values():
        assert key.documentation, f"{name}: {key.name} is not described"
        if not key.is_required and key.default is not None and key.validator is not None:
            key.validator(key.name, key.default)


def test_a_jar_with_a_connector_that_python_has_too_is_listed_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = "org.apache.kafka.connect.file.FileStreamSourceConnector", "com.example.OtherConnector"
    with zipfile.ZipFile(tmp_path / "connect-file-4.1.0.jar", "w") as jar:
        jar.writestr(
            "META-INF/services/org.apache.kafka.connect.source.SourceConnector", f"{ours}\n{other}\n"
        )
    monkeypatch.setattr(plugins, "_finders", [])
    worker = WorkerConfig.from_properties(
        {
            "key.converter": "S",
            "value.converter": "S",
            "offset.storage.file.filename": "unused",
            "plugin.path": str(tmp_path),
        },
        distributed=False,
    )
    use_plugin_path(worker)
    listed = {each.class_name: each for each in plugins.available([plugins.PluginKind.CONNECTOR])}
    assert {ours, f"java:{ours}", other} <= set(listed)
    assert (listed[f"java:{ours}"].type, listed[f"java:{ours}"].version) == ("source", "4.1.0")
    assert plugins.find(f"java:{ours}") != plugins.find(ours)
